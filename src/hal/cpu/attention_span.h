// What attention of every kernel set does alike around its arithmetic: which keys of a block are
// seen, and which heads go together.
//
// Internal linkage throughout; no other includes than layouts (see panel_layout.h).
#pragma once

#include "hal/kernel_set.h"

namespace tenon {

// The keys of one block that are seen: slots [first, last).
struct BlockSpan {
  const std::byte* keys;
  const std::byte* values;
  int64_t first;
  int64_t last;
  int64_t next;  // bytes from this block to the one that is read after it, for prefetches
};

static inline BlockSpan SpanOf(const AttentionArgs& args, int64_t block) {
  const int64_t start = block * kKvBlockTokens;
  const int64_t offset = args.block_table[block] * args.block_stride;
  const int64_t first = args.begin > start ? args.begin - start : 0;
  const int64_t left = args.end - start;
  const int64_t after = left > kKvBlockTokens ? block + 1 : block;
  return {args.keys + offset, args.values + offset, first,
          left < kKvBlockTokens ? left : kKvBlockTokens,
          (args.block_table[after] - args.block_table[block]) * args.block_stride};
}

// Attention of the heads from `first_head` on, as many as the function is for.
using AttendHeadsFn = void (*)(const AttentionArgs& args, int64_t first_head);

// All heads, in groups as large and as even as can be: attend[n - 1] is for groups of n.
template <int kMost>
static inline void AttendInGroups(const AttentionArgs& args, const AttendHeadsFn (&attend)[kMost]) {
  for (int64_t head = 0; head < args.heads;) {
    const int64_t left = args.heads - head;
    const int64_t groups = (left + kMost - 1) / kMost;
    const int64_t size = (left + groups - 1) / groups;
    attend[size - 1](args, head);
    head += size;
  }
}

}  // namespace tenon

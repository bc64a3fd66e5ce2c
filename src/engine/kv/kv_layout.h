// KvLayout: where keys and values of a token lie in the pool's memory.
//
//   [layer][block][kv_head][ keys [head_dim][32] | values [32][head_dim] ]
//
// Layers come first, so that the KV of one layer, or of a range of layers, is one contiguous piece:
// it can go to another process (phase split) while later layers are still being computed.
//
// A codec with 8 or 4 bits an element becomes another KvType (hal/kernel_set.h); what changes here
// is PartBytes alone, which then adds the bytes of its scales. Threading: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "hal/kernel_set.h"

namespace tenon {

struct KvConfig {
  KvType type = KvType::kF16;
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;  // a multiple of 8 (hal/kernel_set.h)
  int32_t blocks = 0;    // of kKvBlockTokens tokens each
};

struct KvLayout {
  size_t part_bytes = 0;   // the keys, or the values, of one head in one block
  size_t head_stride = 0;  // from one head to the next
  size_t block_stride = 0;
  size_t layer_stride = 0;
  size_t total_bytes = 0;

  // Fails with kInvalidArgument, naming the field, for what no model has, and with
  // kResourceExhausted when the bytes don't fit the address space.
  static Result<KvLayout> Create(const KvConfig& config);
};

// Blocks that hold `tokens` tokens. REQUIRES: tokens >= 0.
inline constexpr int64_t BlocksFor(int64_t tokens) {
  return tokens / kKvBlockTokens + (tokens % kKvBlockTokens != 0 ? 1 : 0);
}

}  // namespace tenon

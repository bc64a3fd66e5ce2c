// KvLayout: where keys and values of a token lie in the pool's memory.
//
//   [layer][block][kv_head][ keys | values ]            keys and values as in hal/kv_block.h
//   [layer][float copy][kv_head][ keys | values ]       packed types only; f16
//
// Layers come first, so that the KV of one layer, or of a range of layers, is one contiguous piece:
// it can go to another process (phase split) while later layers are still being computed.
//
// A float copy is the f16 form of one block of a packed type: of a block that is not yet full, of
// one that may be written again, of the first one of a sequence (kv_pool.h). Threading: values.
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
  int32_t head_dim = 0;      // a multiple of 8 (hal/kernel_set.h)
  int32_t blocks = 0;        // of kKvBlockTokens tokens each
  int32_t float_copies = 0;  // packed types: blocks that can have one at the same time
};

struct KvLayout {
  size_t key_bytes = 0;    // the keys of one head in one block; the values follow
  size_t head_stride = 0;  // from one head to the next
  size_t block_stride = 0;
  size_t layer_stride = 0;
  // Of float copies; all 0 for float types.
  size_t copies_offset = 0;  // of the first one
  size_t copy_head_stride = 0;
  size_t copy_stride = 0;
  size_t copy_layer_stride = 0;
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

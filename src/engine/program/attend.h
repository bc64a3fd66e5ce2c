// The arithmetic that all attention operators share: softmax(cap(scale q k^T) + mask) v, in float.
//
// Threading: the heads are shared out over the pool.
#pragma once

#include <cstdint>
#include <vector>

#include "hal/thread_pool.h"

namespace tenon {

// Rows of head_dim contiguous floats for each batch, head and position.
struct HeadRows {
  const float* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;
  const float* At(int64_t batch, int64_t head, int64_t row) const {
    return data + batch * batch_stride + head * head_stride + row * row_stride;
  }
};

enum class ScoresWanted : uint8_t { kProducts, kCapped, kMasked, kProbabilities };

struct AttendArgs {
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;  // a divisor of heads
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  HeadRows q;
  HeadRows k;
  HeadRows v;
  float scale = 1.0F;
  float softcap = 0.0F;          // 0: none
  const float* mask = nullptr;   // added; null: none
  int64_t mask_strides[4] = {};  // batch, head, query, key; 0 where it is repeated
  // Query i of batch b sees key j when begin <= j < end, with p = i + offset[b]:
  //   causal: j <= p; left >= 0: j >= p - left; right >= 0: j <= p + right; valid: j < valid[b].
  bool causal = false;
  int64_t left = -1;
  int64_t right = -1;
  std::vector<int64_t> offset;  // [batch]; empty: 0
  std::vector<int64_t> valid;   // [batch]; empty: all
  float* out = nullptr;         // rows as below
  int64_t out_batch_stride = 0;
  int64_t out_head_stride = 0;
  int64_t out_row_stride = 0;
  float* scores = nullptr;  // [batch, heads, queries, keys]; null: not wanted
  ScoresWanted wanted = ScoresWanted::kProducts;
};

// A query that sees no key has a zero output. Keys that the mask takes out of a row (kNoKey or
// less, where another key is left) are not multiplied unless scores are wanted. Returns the pairs
// of query and key that were.
int64_t Attend(const AttendArgs& args, ThreadPool& pool);

}  // namespace tenon

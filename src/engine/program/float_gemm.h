// Products of float matrices by the kernel set's GEMM.
#pragma once

#include <cstdint>

#include "engine/program/node_call.h"

namespace tenon {

// out [m, n] = a [m, k] * packed [k, n]; rows of `a` and `out` are contiguous.
void PackedGemm(const NodeCall& call, const float* a, int64_t m, const PackedConstant& b,
                float* out);

// out [m, n] = a [m, k] * b [k, n], b not packed. b's element (i, j) is at i * row_step +
// j * column_step.
struct FloatMatrix {
  const float* data = nullptr;
  int64_t rows = 0;     // k
  int64_t columns = 0;  // n
  int64_t row_step = 0;
  int64_t column_step = 1;
};
void Gemm(const NodeCall& call, const float* a, int64_t m, const FloatMatrix& b, float* out);

}  // namespace tenon

// Dequantization: the value of every block format that files hold, as scalar code that is the
// oracle for all faster paths.
//
// Layouts and formulas are GGUF's; results equal those of the `gguf` Python package bit for bit.
// Threading: free functions over disjoint outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace tenon {

// out[i] = value i of `row`. REQUIRES: row.size() == DTypeRowBytes(dtype, out.size()), and dtype is
// one that files hold (not kI32, not activations).
void DequantizeRow(DType dtype, std::span<const std::byte> row, std::span<float> out);

}  // namespace tenon

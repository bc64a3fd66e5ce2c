// Quantization to the simple block formats: round to nearest with the format's own rule for the
// scale, as scalar code. Results equal those of the `gguf` Python package bit for bit where the
// scale and its inverse are finite.
//
// Threading: free functions over disjoint outputs.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace tenon {

// Whether QuantizeRow knows `dtype`: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
bool CanQuantizeTo(DType dtype);

// Encodes `values` as one row. REQUIRES: CanQuantizeTo(dtype) and
// out.size() == DTypeRowBytes(dtype, values.size()).
void QuantizeRow(DType dtype, std::span<const float> values, std::span<std::byte> out);

}  // namespace tenon

// Values of safetensors' types as floats.
#pragma once

#include <cstddef>
#include <span>

#include "model/safetensors/safetensors_reader.h"

namespace tenon {

// Whether DecodeValues knows the type: all floating-point ones.
bool HasFloatValues(SafetensorsType type);

// out[i] is value i. F64 is rounded. F8_E4M3 is the "fn" kind: no infinities, NaN is S.1111.111;
// F8_E8M0 is 2^(e - 127) (OCP 8-bit floating point and MX specifications). REQUIRES:
// HasFloatValues(type), and bytes for out.size() values.
void DecodeValues(SafetensorsType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace tenon

// Writing one group of a quantized activation row, for producers that make a row in pieces.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "hal/kernel_set.h"

namespace tenon {

// Quantizes values[16] into group `group` of a kActI8 row of k values (layout: hal/kernel_set.h).
inline void StoreActivationGroup(QuantizeRowFn quantize, const float* values, std::byte* row,
                                 int64_t k, int64_t group) {
  std::array<std::byte, ActivationRowBytes(kActivationGroup)> packed;
  quantize(values, kActivationGroup, packed.data());
  std::memcpy(row + group * kActivationGroup, packed.data(), kActivationGroup);
  std::memcpy(row + ActivationScaleOffset(k) + group * 4, packed.data() + kActivationGroup, 4);
  std::memcpy(row + ActivationSumOffset(k) + group * 4, packed.data() + kActivationGroup + 4, 4);
}

}  // namespace tenon

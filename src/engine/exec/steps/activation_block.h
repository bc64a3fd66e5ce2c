// Writing one block of a quantized activation row, for producers that make a row in pieces.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "hal/kernel_set.h"

namespace tenon {

// Quantizes values[32] into block `block` of a kActI8 row of k values (layout: hal/kernel_set.h).
inline void StoreActivationBlock(QuantizeRowFn quantize, const float* values, std::byte* row,
                                 int64_t k, int64_t block) {
  alignas(WholeBlock) std::array<std::byte, ActivationRowBytes(kActivationBlockValues)> packed;
  quantize(values, kActivationBlockValues, packed.data());
  std::memcpy(row + block * kWholeBlockBytes, packed.data(), sizeof(WholeBlock));
  std::memcpy(row + GroupsBlocksOffset(k) + block * kGroupsBlockBytes,
              packed.data() + kWholeBlockBytes, sizeof(GroupsBlock));
}

}  // namespace tenon

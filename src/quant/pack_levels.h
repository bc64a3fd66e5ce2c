// From levels and scales to the bytes of a block (layouts: quant/blocks.h).
//
// Threading: free functions over disjoint outputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/blocks.h"
#include "tensor/dtype.h"

namespace tenon {

// One block of 32 values: levels as quant/grid.h counts them (around 0 in symmetric formats).
struct SmallBlockLevels {
  uint16_t scale = 0;  // f16
  uint16_t min = 0;    // f16, affine formats
  std::array<int8_t, kSmallBlock> levels{};
};

// REQUIRES: container is Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0; the levels are inside its range.
void PackSmallBlock(DType container, const SmallBlockLevels& source, std::byte* out);

// One super block: groups of 16 (Q2_K, Q3_K, Q6_K) or 32 values (Q4_K, Q5_K).
struct SuperBlockLevels {
  uint16_t scale = 0;  // f16
  uint16_t min = 0;    // f16, affine formats
  std::array<int8_t, kSuperBlock / 16> scales{};
  std::array<int8_t, kSuperBlock / 16> mins{};
  std::array<int8_t, kSuperBlock> levels{};
};

// REQUIRES: container is Q2_K, Q3_K, Q4_K, Q5_K or Q6_K; levels and scales are inside its ranges.
void PackSuperBlock(DType container, const SuperBlockLevels& source, std::byte* out);

}  // namespace tenon

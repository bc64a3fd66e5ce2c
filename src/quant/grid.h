// Grid: the levels that a group of weights is rounded to, and the search for a group's scale.
//
// A weight is scale * q + offset with an integer level q. Threading: free functions.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace tenon {

enum class ScaleRule : uint8_t {
  kRange,   // the group's range maps onto the levels: what "round to nearest" means
  kSearch,  // the scale with the least weighted squared error among some forty candidates
};

struct GridSpec {
  DType container = DType::kQ8_0;  // the file's block format that holds the result
  int64_t group = 32;              // values with one scale; 0: the whole row
  int low = -127;                  // levels
  int high = 127;
  bool affine = false;      // the group has an offset
  int64_t super_block = 0;  // values whose scales have a common factor (K formats); 0: none
  ScaleRule rule = ScaleRule::kRange;

  int64_t GroupOf(int64_t columns) const { return group == 0 ? columns : group; }
};

// The grid of a block format: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 with groups of any multiple of 32 values
// (0: whole rows), Q2_K to Q6_K with their own groups. `bits` below the format's own leaves levels
// unused (3 bits in Q4_0). Fails with kInvalidArgument for another dtype, group or width.
Result<GridSpec> MakeGrid(DType container, int bits, int64_t group, ScaleRule rule);

struct GroupScale {
  float scale = 0.0F;
  float offset = 0.0F;
};

// The scale (and offset, for affine grids) of a group. `importance` weighs the squared errors; used
// by kSearch only. Offsets of K formats are at most 0. REQUIRES: as many importances as values.
GroupScale FindGroupScale(const GridSpec& grid, std::span<const float> values,
                          std::span<const float> importance);

// The level nearest to `value`, halves away from zero; 0 for NaN. `inverse` is 1 / scale, or 0 for
// scale 0.
inline int NearestLevel(const GridSpec& grid, float value, const GroupScale& scale, float inverse) {
  // Without branches, so that loops over a group become vectors.
  const auto low = static_cast<float>(grid.low);
  const auto high = static_cast<float>(grid.high);
  float level = (value - scale.offset) * inverse;
  level = level == level ? level : 0.0F;
  level = level < high ? level : high;
  level = level > low ? level : low;
  return static_cast<int>(level + (level < 0.0F ? -0.5F : 0.5F));
}

}  // namespace tenon

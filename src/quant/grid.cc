#include "quant/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace tenon {
namespace {

struct FormatRow {
  DType dtype;
  int bits;
  int low;
  int high;
  bool affine;
  int64_t group;        // 0: chosen by the caller
  int64_t super_block;  // 0: none
};

constexpr std::array kFormats = {
    FormatRow{DType::kQ8_0, 8, -127, 127, false, 0, 0},
    FormatRow{DType::kQ4_0, 4, -8, 7, false, 0, 0},
    FormatRow{DType::kQ4_1, 4, 0, 15, true, 0, 0},
    FormatRow{DType::kQ5_0, 5, -16, 15, false, 0, 0},
    FormatRow{DType::kQ5_1, 5, 0, 31, true, 0, 0},
    FormatRow{DType::kQ2_K, 2, 0, 3, true, 16, 256},
    FormatRow{DType::kQ3_K, 3, -4, 3, false, 16, 256},
    FormatRow{DType::kQ4_K, 4, 0, 15, true, 32, 256},
    FormatRow{DType::kQ5_K, 5, 0, 31, true, 32, 256},
    FormatRow{DType::kQ6_K, 6, -32, 31, false, 16, 256},
};

// Levels of the nearest integers. The compiler vectorizes it: no branches.
float RoundedClamped(float level, float low, float high) {
  // Adding and taking away 1.5 * 2^23 rounds to the nearest even integer.
  constexpr float kMagic = 12582912.0F;
  return (std::clamp(level, low, high) + kMagic) - kMagic;
}

float LargestMagnitude(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) {
    if (std::fabs(value) > std::fabs(largest))
      largest = value;
  }
  return largest;
}

float InverseOf(float value) {
  return value == 0.0F ? 0.0F : 1.0F / value;
}

// Least squares for one parameter: with levels q of `inverse`, the best scale is sum(wxq)/sum(wqq),
// and what it explains of the error is sum(wxq)^2 / sum(wqq).
struct SymmetricFit {
  float scale = 0.0F;
  float explained = -1.0F;
};
SymmetricFit FitSymmetric(const GridSpec& grid, std::span<const float> values,
                          std::span<const float> importance, float inverse) {
  const auto low = static_cast<float>(grid.low);
  const auto high = static_cast<float>(grid.high);
  float products = 0.0F;
  float squares = 0.0F;
  for (size_t i = 0; i < values.size(); ++i) {
    const float level = RoundedClamped(values[i] * inverse, low, high);
    products += importance[i] * values[i] * level;
    squares += importance[i] * level * level;
  }
  if (!(squares > 0.0F))
    return {};
  return {products / squares, products * products / squares};
}

// Denominators around the lowest level, for both signs: the largest magnitude lands on the lowest
// level, or on the highest one, or is cut a little.
GroupScale SearchSymmetric(const GridSpec& grid, std::span<const float> values,
                           std::span<const float> importance) {
  constexpr int kSteps = 9;
  const float largest = LargestMagnitude(values);
  if (largest == 0.0F)
    return {};
  const auto reach = static_cast<float>(-grid.low);
  // A tenth of a level a step; of a wide grid a tenth of a level is nothing.
  const float step = std::max(0.1F, reach / 80.0F);
  SymmetricFit best;
  for (const float sign : {-1.0F, 1.0F}) {
    for (int i = -kSteps; i <= kSteps; ++i) {
      const float inverse = sign * (reach + step * static_cast<float>(i)) / largest;
      const SymmetricFit fit = FitSymmetric(grid, values, importance, inverse);
      if (fit.explained > best.explained)
        best = fit;
    }
  }
  return {best.scale, 0.0F};
}

// Least squares for scale and offset with the levels of one candidate.
struct AffineFit {
  GroupScale scale;
  float error = 0.0F;
};
struct Moments {
  float w = 0, x = 0, q = 0, qq = 0, xq = 0;
};

Moments LevelMoments(const GridSpec& grid, std::span<const float> values,
                     std::span<const float> importance, float inverse, float min) {
  const auto high = static_cast<float>(grid.high);
  Moments m;
  for (size_t i = 0; i < values.size(); ++i) {
    const float level = RoundedClamped((values[i] - min) * inverse, 0.0F, high);
    const float weight = importance[i];
    m.w += weight;
    m.x += weight * values[i];
    m.q += weight * level;
    m.qq += weight * level * level;
    m.xq += weight * values[i] * level;
  }
  return m;
}

GroupScale SolveAffine(const GridSpec& grid, const Moments& m) {
  const float determinant = m.w * m.qq - m.q * m.q;
  GroupScale scale;
  if (determinant > 0.0F) {
    scale.scale = (m.w * m.xq - m.x * m.q) / determinant;
    scale.offset = (m.qq * m.x - m.q * m.xq) / determinant;
  }
  // K formats subtract their minima.
  if (grid.super_block != 0 && scale.offset > 0.0F)
    scale = {m.qq > 0.0F ? m.xq / m.qq : 0.0F, 0.0F};
  return scale;
}

float WeightedError(const GridSpec& grid, std::span<const float> values,
                    std::span<const float> importance, const GroupScale& scale) {
  const float inverse = InverseOf(scale.scale);
  const auto low = static_cast<float>(grid.low);
  const auto high = static_cast<float>(grid.high);
  float error = 0.0F;
  for (size_t i = 0; i < values.size(); ++i) {
    const float level = RoundedClamped((values[i] - scale.offset) * inverse, low, high);
    const float difference = scale.scale * level + scale.offset - values[i];
    error += importance[i] * difference * difference;
  }
  return error;
}

GroupScale RangeAffine(const GridSpec& grid, std::span<const float> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const float min = grid.super_block != 0 ? std::min(*least, 0.0F) : *least;
  return {(std::max(*most, min) - min) / static_cast<float>(grid.high), min};
}

// Candidates shrink the range, or stretch it a little, by tenths of a level.
GroupScale SearchAffine(const GridSpec& grid, std::span<const float> values,
                        std::span<const float> importance) {
  GroupScale best = RangeAffine(grid, values);
  if (best.scale == 0.0F)
    return best;
  const float range = best.scale * static_cast<float>(grid.high);
  const float min = best.offset;
  float least = WeightedError(grid, values, importance, best);
  for (int i = -5; i <= 15; ++i) {
    const float inverse = (static_cast<float>(grid.high) + 0.1F * static_cast<float>(i)) / range;
    const Moments moments = LevelMoments(grid, values, importance, inverse, min);
    const GroupScale candidate = SolveAffine(grid, moments);
    const float error = WeightedError(grid, values, importance, candidate);
    if (candidate.scale > 0.0F && error < least) {
      least = error;
      best = candidate;
    }
  }
  return best;
}

GroupScale RangeSymmetric(const GridSpec& grid, std::span<const float> values) {
  const float largest = LargestMagnitude(values);
  // A grid that reaches further down than up puts the largest magnitude on the lowest level.
  if (grid.low == -grid.high)
    return {std::fabs(largest) / static_cast<float>(grid.high), 0.0F};
  return {largest / static_cast<float>(grid.low), 0.0F};
}

}  // namespace

Result<GridSpec> MakeGrid(DType container, int bits, int64_t group, ScaleRule rule) {
  const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                  [&](const FormatRow& row) { return row.dtype == container; });
  if (found == kFormats.end())
    return InvalidArgument(fmt::format("weights can't be quantized to {}", DTypeName(container)));
  if (bits < 2 || bits > found->bits)
    return InvalidArgument(
        fmt::format("{} bits in {}, which holds {}", bits, DTypeName(container), found->bits));
  if (group < 0 || group % 32 != 0)
    return InvalidArgument(fmt::format("groups of {}; a multiple of 32 expected", group));
  GridSpec grid{container, group, found->low, found->high, found->affine, found->super_block, rule};
  if (found->super_block != 0)
    grid.group = found->group;
  const int unused = found->bits - bits;
  if (unused > 0 && grid.low == -grid.high)
    grid.low = -(grid.high = (1 << (bits - 1)) - 1);
  else if (unused > 0 && grid.affine)
    grid.high = (1 << bits) - 1;
  else if (unused > 0)
    grid.high = -(grid.low = -(1 << (bits - 1))) - 1;
  return grid;
}

GroupScale FindGroupScale(const GridSpec& grid, std::span<const float> values,
                          std::span<const float> importance) {
  const bool search = grid.rule == ScaleRule::kSearch;
  if (grid.affine)
    return search ? SearchAffine(grid, values, importance) : RangeAffine(grid, values);
  return search ? SearchSymmetric(grid, values, importance) : RangeSymmetric(grid, values);
}

}  // namespace tenon

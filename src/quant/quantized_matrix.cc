#include "quant/quantized_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/pack_levels.h"

namespace tenon {
namespace {

// Ranges of the integers that scale a group's factors: 4-bit pairs (Q2_K), 6-bit pairs (Q4_K,
// Q5_K), signed 6 bits (Q3_K) and 8 bits (Q6_K).
struct SubRange {
  int low;
  int high;
};
SubRange SubRangeOf(DType container) {
  switch (container) {
    case DType::kQ2_K:
      return {0, 15};
    case DType::kQ3_K:
      return {-32, 31};
    case DType::kQ6_K:
      return {-128, 127};
    default:
      return {0, 63};
  }
}

float Inverse(float value) {
  return value == 0.0F ? 0.0F : 1.0F / value;
}

int NearestInteger(float value, SubRange range) {
  if (!(value > static_cast<float>(range.low)))
    return range.low;
  return static_cast<int>(std::lround(std::min(value, static_cast<float>(range.high))));
}

GroupScale RoundToHalf(const GroupScale& scale) {
  return {F16ToF32(F32ToF16(scale.scale)), F16ToF32(F32ToF16(scale.offset))};
}

}  // namespace

QuantizedMatrix::QuantizedMatrix(const GridSpec& grid, int64_t rows, int64_t columns)
    : grid_(grid),
      rows_(rows),
      columns_(columns),
      group_(grid.GroupOf(columns)),
      groups_(columns / group_),
      levels_(static_cast<size_t>(rows * columns)),
      scales_(static_cast<size_t>(rows * groups_)),
      inverses_(static_cast<size_t>(rows * groups_)) {
  TENON_CHECK(columns % group_ == 0);
  TENON_CHECK(columns % GetDTypeInfo(grid.container).block_elements == 0);
  if (grid.super_block == 0)
    return;
  super_.resize(static_cast<size_t>(rows * (columns / grid.super_block)));
  sub_.resize(scales_.size());
}

void QuantizedMatrix::BeginGroup(int64_t row, int64_t column, std::span<const float> row_values,
                                 std::span<const float> importance) {
  if (grid_.super_block != 0 && column % grid_.super_block == 0)
    BeginSuperBlock(row, column, row_values, importance);
  const auto first = static_cast<size_t>(column);
  const auto count = static_cast<size_t>(group_);
  const GroupScale wanted =
      FindGroupScale(grid_, row_values.subspan(first, count), importance.subspan(first, count));
  const auto index = static_cast<size_t>(row * groups_ + column / group_);
  if (grid_.super_block == 0) {
    scales_[index] = RoundToHalf(wanted);
  } else {
    const int64_t super = row * (columns_ / grid_.super_block) + column / grid_.super_block;
    scales_[index] = FitSubLevels(super_[static_cast<size_t>(super)], wanted, sub_[index]);
  }
  inverses_[index] = Inverse(scales_[index].scale);
}

// The factors are chosen so that the largest scale and the largest minimum take the last integer.
void QuantizedMatrix::BeginSuperBlock(int64_t row, int64_t column,
                                      std::span<const float> row_values,
                                      std::span<const float> importance) {
  const SubRange range = SubRangeOf(grid_.container);
  const auto count = static_cast<size_t>(group_);
  float largest = 0.0F;
  float min = 0.0F;
  for (int64_t at = column; at < column + grid_.super_block; at += group_) {
    const auto first = static_cast<size_t>(at);
    const GroupScale scale =
        FindGroupScale(grid_, row_values.subspan(first, count), importance.subspan(first, count));
    if (std::fabs(scale.scale) > std::fabs(largest))
      largest = scale.scale;
    min = std::max(min, -scale.offset);
  }
  SuperScale& super = super_[static_cast<size_t>(row * (columns_ / grid_.super_block) +
                                                 column / grid_.super_block)];
  const int last = range.low < 0 ? range.low : range.high;
  super.scale = F32ToF16(largest / static_cast<float>(last));
  super.min = F32ToF16(min / static_cast<float>(range.high));
}

GroupScale QuantizedMatrix::FitSubLevels(const SuperScale& super, const GroupScale& wanted,
                                         SubLevels& levels) const {
  const SubRange range = SubRangeOf(grid_.container);
  const float factor = F16ToF32(super.scale);
  const float min_factor = F16ToF32(super.min);
  levels.scale = static_cast<int8_t>(NearestInteger(wanted.scale * Inverse(factor), range));
  levels.min = 0;
  if (grid_.affine) {
    levels.min =
        static_cast<int8_t>(NearestInteger(-wanted.offset * Inverse(min_factor), {0, range.high}));
  }
  return {factor * static_cast<float>(levels.scale),
          grid_.affine ? -(min_factor * static_cast<float>(levels.min)) : 0.0F};
}

void QuantizedMatrix::RoundGroup(int64_t row, int64_t column, const float* values) {
  const auto group = static_cast<size_t>(row * groups_ + column / group_);
  const GridSpec grid = grid_;
  const GroupScale scale = scales_[group];
  const float inverse = inverses_[group];
  int8_t* levels = levels_.data() + row * columns_ + column;
  for (int64_t i = 0; i < group_; ++i)
    levels[i] = static_cast<int8_t>(NearestLevel(grid, values[i], scale, inverse));
}

void QuantizedMatrix::DecodeRow(int64_t row, float* out) const {
  for (int64_t group = 0; group < groups_; ++group) {
    const GroupScale scale = scales_[static_cast<size_t>(row * groups_ + group)];
    const int8_t* levels = levels_.data() + row * columns_ + group * group_;
    for (int64_t i = 0; i < group_; ++i)
      out[group * group_ + i] = scale.scale * static_cast<float>(levels[i]) + scale.offset;
  }
}

void QuantizedMatrix::SetScale(int64_t row, int64_t column, const GroupScale& scale) {
  TENON_CHECK(grid_.super_block == 0);
  const auto index = static_cast<size_t>(row * groups_ + column / group_);
  scales_[index] = RoundToHalf(scale);
  inverses_[index] = Inverse(scales_[index].scale);
}

void QuantizedMatrix::EncodeRow(int64_t row, std::span<std::byte> out) const {
  const DTypeInfo& info = GetDTypeInfo(grid_.container);
  TENON_CHECK(static_cast<int64_t>(out.size()) == DTypeRowBytes(grid_.container, columns_));
  for (int64_t block = 0; block < columns_ / info.block_elements; ++block) {
    std::byte* target = out.data() + block * info.block_bytes;
    if (grid_.super_block == 0)
      EncodeSmallBlock(row, block, target);
    else
      EncodeSuperBlock(row, block, target);
  }
}

void QuantizedMatrix::EncodeSmallBlock(int64_t row, int64_t block, std::byte* out) const {
  const int64_t column = block * kSmallBlock;
  SmallBlockLevels source;
  const GroupScale& scale = ScaleAt(row, column);
  source.scale = F32ToF16(scale.scale);
  source.min = F32ToF16(scale.offset);
  std::copy_n(levels_.data() + row * columns_ + column, kSmallBlock, source.levels.begin());
  PackSmallBlock(grid_.container, source, out);
}

void QuantizedMatrix::EncodeSuperBlock(int64_t row, int64_t block, std::byte* out) const {
  const int64_t column = block * kSuperBlock;
  const SuperScale& super = super_[static_cast<size_t>(row * (columns_ / kSuperBlock) + block)];
  SuperBlockLevels source;
  source.scale = super.scale;
  source.min = super.min;
  for (int64_t g = 0; g < kSuperBlock / group_; ++g) {
    const SubLevels& sub = sub_[static_cast<size_t>(row * groups_ + column / group_ + g)];
    source.scales[static_cast<size_t>(g)] = sub.scale;
    source.mins[static_cast<size_t>(g)] = sub.min;
  }
  std::copy_n(levels_.data() + row * columns_ + column, kSuperBlock, source.levels.begin());
  PackSuperBlock(grid_.container, source, out);
}

}  // namespace tenon

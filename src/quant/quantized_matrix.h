// QuantizedMatrix: the levels and scales of a matrix that is being quantized column by column.
//
// A row's groups are begun in ascending order of columns; each begun group then rounds its values.
// What Round returns is, bit for bit, what the encoded row decodes to. Scales are kept as the
// container holds them (16-bit floats, or products of two levels of scales in K formats). Owns its
// levels. Threading: different rows from different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/grid.h"
#include "quant/matrix.h"

namespace tenon {

class QuantizedMatrix {
 public:
  // REQUIRES: columns are a multiple of the grid's group and super block, and of the container's
  // block.
  QuantizedMatrix(const GridSpec& grid, int64_t rows, int64_t columns);

  const GridSpec& grid() const { return grid_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t group() const { return group_; }

  // Chooses the scale of the group that begins at `column` for the values as they now stand in
  // `row_values` [columns]; at the beginning of a super block also its factors. REQUIRES: column is
  // a multiple of group().
  void BeginGroup(int64_t row, int64_t column, std::span<const float> row_values,
                  std::span<const float> importance);

  // Records the level nearest to `value` and returns what it stands for. REQUIRES: the group begun.
  float Round(int64_t row, int64_t column, float value) {
    const int64_t group = row * groups_ + column / group_;
    const GroupScale& scale = scales_[static_cast<size_t>(group)];
    const int level = NearestLevel(grid_, value, scale, inverses_[static_cast<size_t>(group)]);
    levels_[static_cast<size_t>(row * columns_ + column)] = static_cast<int8_t>(level);
    return scale.scale * static_cast<float>(level) + scale.offset;
  }

  // Round for all values of the group that begins at `column`. REQUIRES: the group begun.
  void RoundGroup(int64_t row, int64_t column, const float* values);
  // What the row's levels stand for. REQUIRES: all rounded.
  void DecodeRow(int64_t row, float* out) const;

  int LevelAt(int64_t row, int64_t column) const {
    return levels_[static_cast<size_t>(row * columns_ + column)];
  }
  const GroupScale& ScaleAt(int64_t row, int64_t column) const {
    return scales_[static_cast<size_t>(row * groups_ + column / group_)];
  }
  // The value that the level at this place stands for.
  float ValueAt(int64_t row, int64_t column) const {
    const GroupScale& scale = ScaleAt(row, column);
    return scale.scale * static_cast<float>(LevelAt(row, column)) + scale.offset;
  }

  // Replaces a group's scale by the nearest one that the container holds; levels stay. REQUIRES:
  // the container has no super blocks.
  void SetScale(int64_t row, int64_t column, const GroupScale& scale);

  // Bytes of one row in the container's format.
  void EncodeRow(int64_t row, std::span<std::byte> out) const;

 private:
  // Factors of a super block's scales and offsets, f16.
  struct SuperScale {
    uint16_t scale = 0;
    uint16_t min = 0;
  };
  // A group's scale and minimum as integers times the super block's factors.
  struct SubLevels {
    int8_t scale = 0;
    int8_t min = 0;
  };

  void BeginSuperBlock(int64_t row, int64_t column, std::span<const float> row_values,
                       std::span<const float> importance);
  GroupScale FitSubLevels(const SuperScale& super, const GroupScale& wanted,
                          SubLevels& levels) const;
  void EncodeSmallBlock(int64_t row, int64_t block, std::byte* out) const;
  void EncodeSuperBlock(int64_t row, int64_t block, std::byte* out) const;

  GridSpec grid_;
  int64_t rows_;
  int64_t columns_;
  int64_t group_;
  int64_t groups_;                  // in a row
  std::vector<int8_t> levels_;      // [rows, columns]
  std::vector<GroupScale> scales_;  // [rows, groups]
  std::vector<float> inverses_;     // [rows, groups] of the scales
  std::vector<SuperScale> super_;   // [rows, super blocks]
  std::vector<SubLevels> sub_;      // [rows, groups], K formats
};

}  // namespace tenon

#include "model/hf/fp8_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/safetensors/value_decoder.h"
#include "quant/half.h"

namespace tenon {
namespace {

// Where the scale of a value is: scales[row / rows * stride + column / columns].
struct ScaleGrid {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t stride = 0;
};

int64_t BlocksOf(int64_t extent, int64_t block) {
  return (extent + block - 1) / block;
}

// From the scales' shape. A single scale is for all, whatever its shape.
Result<ScaleGrid> FindGrid(const Fp8Weights& weights) {
  const std::vector<int64_t>& shape = weights.scale_shape;
  if (weights.scales.size() == 1)
    return ScaleGrid{weights.rows, weights.columns, 0};
  const bool each_row = !shape.empty() && shape[0] == weights.rows &&
                        (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1));
  if (each_row)
    return ScaleGrid{1, weights.columns, 1};
  const int64_t block_columns = BlocksOf(weights.columns, weights.block_columns);
  if (shape.size() == 2 && shape[0] == BlocksOf(weights.rows, weights.block_rows) &&
      shape[1] == block_columns)
    return ScaleGrid{weights.block_rows, weights.block_columns, block_columns};
  return Corrupt(
      fmt::format("its scales have the shape [{}]; one for all, one for each of {} rows "
                  "or one for each block of {} x {} values expected",
                  fmt::join(shape, ", "), weights.rows, weights.block_rows, weights.block_columns));
}

}  // namespace

Result<Buffer> Fp8ToBf16(const Fp8Weights& weights) {
  ScaleGrid grid;
  if (!weights.scales.empty()) {
    TENON_ASSIGN_OR_RETURN(grid, FindGrid(weights));
  }
  const auto columns = static_cast<size_t>(weights.columns);
  const size_t count = static_cast<size_t>(weights.rows) * columns;
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(count * sizeof(uint16_t)));
  auto* out = buffer.As<uint16_t>();
  std::vector<float> row_values(columns);
  for (int64_t row = 0; row < weights.rows; ++row) {
    DecodeValues(weights.type, weights.bytes.subspan(static_cast<size_t>(row) * columns, columns),
                 row_values);
    for (size_t column = 0; column < columns; ++column) {
      float value = row_values[column];
      if (!weights.scales.empty()) {
        value *= weights.scales[static_cast<size_t>(row / grid.rows * grid.stride +
                                                    static_cast<int64_t>(column) / grid.columns)];
      }
      *out++ = F32ToBF16(value);
    }
  }
  return buffer;
}

}  // namespace tenon

#include "frontend/quantize/layered_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "graph/slice.h"
#include "quant/dequantize.h"

namespace tenon {

Result<WeightView> LayeredWeights::Find(std::string_view name) const {
  if (name == kSliceInput)
    return WeightView{DType::kF32, input_rows_, input_columns_, std::as_bytes(input_)};
  const auto found = replaced_.find(name);
  if (found == replaced_.end())
    return below_.Find(name);
  const Matrix& matrix = found->second;
  return WeightView{DType::kF32, matrix.rows(), matrix.columns(), std::as_bytes(matrix.values())};
}

Result<std::span<const std::byte>> LayeredWeights::BytesAt(std::string_view name, uint64_t offset,
                                                           uint64_t count) const {
  if (name == kSliceInput || replaced_.contains(name))
    return WeightSource::BytesAt(name, offset, count);
  return below_.BytesAt(name, offset, count);
}

Status LayeredWeights::ReadAt(std::string_view name, uint64_t offset,
                              std::span<std::byte> out) const {
  const auto found = replaced_.find(name);
  if (name != kSliceInput && found == replaced_.end())
    return below_.ReadAt(name, offset, out);
  const std::span<const float> values =
      name == kSliceInput ? input_ : std::as_const(found->second).values();
  const std::span<const std::byte> bytes = std::as_bytes(values);
  if (offset > bytes.size() || out.size() > bytes.size() - offset) {
    return InvalidArgument(
        fmt::format("bytes {}..{} of a table of {}", offset, offset + out.size(), bytes.size()),
        std::string(name));
  }
  std::memcpy(out.data(), bytes.data() + offset, out.size());
  return {};
}

void LayeredWeights::Release(std::string_view name, uint64_t offset, uint64_t count) const {
  if (name != kSliceInput && !replaced_.contains(name))
    below_.Release(name, offset, count);
}

namespace {

Status CheckRow(std::string_view name, int64_t row, std::span<const float> values) {
  for (size_t j = 0; j < values.size(); ++j) {
    if (!std::isfinite(values[j]))
      return Corrupt(fmt::format("row {}, column {} is {}, a number expected", row, j, values[j]),
                     std::string(name));
  }
  return {};
}

}  // namespace

Result<Matrix> LoadMatrix(const WeightSource& source, std::string_view name) {
  TENON_ASSIGN_OR_RETURN(const WeightView view, source.Find(name));
  return LoadRows(source, name, 0, view.rows);
}

Result<Matrix> LoadRows(const WeightSource& source, std::string_view name, int64_t first,
                        int64_t count) {
  TENON_ASSIGN_OR_RETURN(const WeightView view, source.Find(name));
  Matrix matrix(count, view.columns);
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(view.dtype, view.columns));
  std::vector<std::byte> bytes;  // of a row that lies in no single piece of mapped memory
  for (int64_t row = 0; row < count; ++row) {
    const size_t offset = static_cast<size_t>(first + row) * row_bytes;
    std::span<const std::byte> encoded;
    if (view.bytes.empty()) {
      bytes.resize(row_bytes);
      TENON_RETURN_IF_ERROR(source.ReadAt(name, offset, bytes));
      encoded = bytes;
    } else {
      encoded = view.bytes.subspan(offset, row_bytes);
    }
    const std::span<float> values(matrix.Row(row), static_cast<size_t>(view.columns));
    DequantizeRow(view.dtype, encoded, values);
    TENON_RETURN_IF_ERROR(CheckRow(name, first + row, values));
  }
  return matrix;
}

}  // namespace tenon

#include "model/column_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "quant/dequantize.h"

namespace tenon {
namespace {

// The matrix as F32 with column `order[i]` where column i was.
Status Restore(TensorInfo& matrix, const TensorInfo& order, ModelSource& source) {
  const auto columns = static_cast<size_t>(matrix.columns());
  const auto rows = static_cast<size_t>(matrix.rows());
  std::vector<float> inputs(columns);
  if (order.columns() != matrix.columns())
    return Corrupt(fmt::format("{} columns, {} expected", order.columns(), matrix.columns()),
                   order.name);
  DequantizeRow(order.dtype, source.Bytes(order), inputs);
  const auto is_column = [&](float input) {
    return input >= 0.0F && input < static_cast<float>(columns);
  };
  if (!std::ranges::all_of(inputs, is_column))
    return Corrupt(fmt::format("numbers from 0 to {} expected", columns - 1), order.name);
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(rows * columns * sizeof(float)));
  const auto row_bytes = static_cast<uint64_t>(DTypeRowBytes(matrix.dtype, matrix.columns()));
  std::vector<float> row(columns);
  for (size_t i = 0; i < rows; ++i) {
    DequantizeRow(matrix.dtype, source.BytesAt(matrix, i * row_bytes, row_bytes), row);
    float* out = buffer.As<float>() + i * columns;
    for (size_t j = 0; j < columns; ++j)
      out[static_cast<size_t>(inputs[j])] = row[j];
  }
  matrix.dtype = DType::kF32;
  matrix.bytes = rows * columns * sizeof(float);
  matrix.storage = TensorStorage::kBuffer;
  matrix.file = static_cast<uint32_t>(source.buffers.size());
  matrix.offset = 0;
  source.buffers.push_back(std::move(buffer));
  return {};
}

}  // namespace

bool MayHaveColumnOrder(std::string_view stem) {
  constexpr std::array<std::string_view, 10> kStems = {
      ".attn_q", ".attn_k",   ".attn_v",         ".attn_output",  ".ffn_gate",
      ".ffn_up", ".ffn_down", ".ffn_gate_shexp", ".ffn_up_shexp", ".ffn_down_shexp"};
  return stem.starts_with("blk.") &&
         std::ranges::any_of(kStems, [&](std::string_view end) { return stem.ends_with(end); });
}

Status RestoreColumnOrder(ModelSource& source) {
  constexpr std::string_view kWeight = ".weight";
  bool any = false;
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    const std::string_view name = source.tensors[i].name;
    if (!name.ends_with(kWeight))
      continue;
    const TensorInfo* order = source.Find(
        fmt::format("{}{}", name.substr(0, name.size() - kWeight.size()), kOrderSuffix));
    any = any || order != nullptr;
    if (order != nullptr)
      TENON_RETURN_IF_ERROR(Restore(source.tensors[i], *order, source));
  }
  if (!any)
    return {};
  std::erase_if(source.tensors,
                [](const TensorInfo& tensor) { return tensor.name.ends_with(kOrderSuffix); });
  source.by_name.clear();
  for (size_t i = 0; i < source.tensors.size(); ++i)
    source.by_name.emplace(source.tensors[i].name, i);
  return {};
}

}  // namespace tenon

#include "frontend/convert/layout_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/safetensors/value_decoder.h"
#include "quant/dequantize.h"
#include "quant/half.h"

namespace tenon {
namespace {

// Rows are read in pieces of about this many bytes: enough to make a system call cheap.
constexpr int64_t kPieceBytes = 1 << 20;

DType FloatDType(SafetensorsType type) {
  if (type == SafetensorsType::kF16)
    return DType::kF16;
  return type == SafetensorsType::kBF16 ? DType::kBF16 : DType::kF32;
}

void AppendFloat(float value, SafetensorsType type, std::vector<std::byte>& out) {
  const auto put = [&](auto number) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    out.insert(out.end(), bytes, bytes + sizeof(number));
  };
  if (type == SafetensorsType::kF16)
    put(F32ToF16(value));
  else if (type == SafetensorsType::kBF16)
    put(F32ToBF16(value));
  else
    put(value);
}

using RowPiece = std::function<Status(DType, std::span<const std::byte>)>;

// Whole rows of the layout, in order, some at a time.
Status ForRows(const HfTensorLayout& layout, TensorSupply& supply, const RowPiece& take) {
  std::vector<std::byte> piece;
  const TensorInfo* last = nullptr;
  for (const RowRange& range : layout.rows) {
    const DType dtype = supply.FormOf(*range.tensor).dtype;
    const int64_t row_bytes = DTypeRowBytes(dtype, SupplyColumns(*range.tensor));
    const int64_t step = std::max<int64_t>(1, kPieceBytes / row_bytes);
    for (int64_t row = 0; row < range.count; row += step) {
      piece.resize(static_cast<size_t>(std::min(step, range.count - row) * row_bytes));
      TENON_RETURN_IF_ERROR(supply.ReadRows(*range.tensor, range.first + row, piece));
      TENON_RETURN_IF_ERROR(take(dtype, piece));
    }
    if (last != nullptr && last != range.tensor)
      supply.Release(*last);
    last = range.tensor;
  }
  if (last != nullptr)
    supply.Release(*last);
  return {};
}

// Calls with the values of one row after the other.
Status ForFloatRows(const HfTensorLayout& layout, TensorSupply& supply,
                    const std::function<Status(std::span<const float>)>& take) {
  std::vector<float> values(static_cast<size_t>(SupplyColumns(*layout.rows.front().tensor)));
  return ForRows(layout, supply, [&](DType dtype, std::span<const std::byte> piece) -> Status {
    const auto row_bytes =
        static_cast<size_t>(DTypeRowBytes(dtype, static_cast<int64_t>(values.size())));
    for (; !piece.empty(); piece = piece.subspan(row_bytes)) {
      DequantizeRow(dtype, piece.first(row_bytes), values);
      for (float& value : values)
        value += layout.addend;
      TENON_RETURN_IF_ERROR(take(values));
    }
    return {};
  });
}

Status WriteFloats(const HfTensorLayout& layout, SafetensorsType type, TensorSupply& supply,
                   const ByteSink& sink) {
  const bool same = CommonForm(layout, supply).dtype == FloatDType(type);
  if (same && layout.addend == 0.0F)
    return ForRows(layout, supply,
                   [&](DType, std::span<const std::byte> piece) { return sink(piece); });
  std::vector<std::byte> bytes;
  const auto take = [&](std::span<const float> row) -> Status {
    for (const float value : row)
      AppendFloat(value, type, bytes);
    if (bytes.size() < static_cast<size_t>(kPieceBytes))
      return {};
    TENON_RETURN_IF_ERROR(sink(bytes));
    bytes.clear();
    return {};
  };
  TENON_RETURN_IF_ERROR(ForFloatRows(layout, supply, take));
  return sink(bytes);
}

// The layout's rows are the columns of what is written.
Status WriteTransposed(const HfTensorLayout& layout, SafetensorsType type, TensorSupply& supply,
                       const ByteSink& sink) {
  std::vector<float> all;
  TENON_RETURN_IF_ERROR(ForFloatRows(layout, supply, [&](std::span<const float> row) -> Status {
    all.insert(all.end(), row.begin(), row.end());
    return {};
  }));
  const auto columns = static_cast<size_t>(layout.shape[1]);
  const auto rows = static_cast<size_t>(layout.shape[0]);
  std::vector<std::byte> bytes;
  for (size_t row = 0; row < rows; ++row) {
    bytes.clear();
    for (size_t column = 0; column < columns; ++column)
      AppendFloat(all[column * rows + row], type, bytes);
    TENON_RETURN_IF_ERROR(sink(bytes));
  }
  return {};
}

Status WriteIntegers(const HfTensorLayout& layout, TensorSupply& supply, const ByteSink& sink) {
  std::vector<std::byte> out;
  const int64_t columns = layout.shape.back();
  return ForRows(layout, supply, [&](DType dtype, std::span<const std::byte> piece) {
    const auto rows = static_cast<int64_t>(piece.size()) / DTypeRowBytes(dtype, columns);
    out.resize(static_cast<size_t>(rows * (dtype == DType::kQ4_0 ? columns / 2 : columns)));
    PackRow(dtype, piece, out);
    return sink(out);
  });
}

Status WriteScales(const HfTensorLayout& layout, SafetensorsType type, TensorSupply& supply,
                   const ByteSink& sink) {
  const TensorForm form = CommonForm(layout, supply);
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(form.dtype, layout.shape.back()));
  std::vector<std::byte> bytes;
  return ForRows(layout, supply, [&](DType, std::span<const std::byte> piece) -> Status {
    bytes.clear();
    for (; !piece.empty(); piece = piece.subspan(row_bytes)) {
      auto scales = RowScales(form, piece.first(row_bytes));
      if (!scales.ok())
        return MakeError(scales.error().code, scales.error().message, layout.name);
      for (const float scale : *scales)
        AppendFloat(scale, type, bytes);
    }
    return sink(bytes);
  });
}

}  // namespace

TensorForm CommonForm(const HfTensorLayout& layout, const TensorSupply& supply) {
  const TensorForm form = supply.FormOf(*layout.rows.front().tensor);
  const bool same = std::ranges::all_of(
      layout.rows, [&](const RowRange& range) { return supply.FormOf(*range.tensor) == form; });
  return same ? form : TensorForm{};
}

bool CanPack(const HfTensorLayout& layout, const TensorSupply& supply) {
  return layout.linear && !layout.transposed &&
         HasPackedForm(CommonForm(layout, supply), layout.shape.back());
}

PlannedTensor PlanFloats(const HfTensorLayout& layout, SafetensorsType type, TensorSupply& supply) {
  PlannedTensor tensor;
  tensor.plan = {layout.name, type, layout.shape};
  tensor.write = [&layout, &supply, type](const ByteSink& sink) {
    return layout.transposed ? WriteTransposed(layout, type, supply, sink)
                             : WriteFloats(layout, type, supply, sink);
  };
  return tensor;
}

std::vector<PlannedTensor> PlanPacked(const HfTensorLayout& layout, SafetensorsType scales,
                                      TensorSupply& supply) {
  const TensorForm form = CommonForm(layout, supply);
  const int64_t rows = layout.shape[0];
  const int64_t columns = layout.shape[1];
  const int64_t groups = form.group == 0 ? 1 : columns / form.group;
  const bool nibbles = form.dtype == DType::kQ4_0;
  std::vector<PlannedTensor> tensors(2);
  tensors[0].plan = {layout.name, SafetensorsType::kI8, {rows, columns}};
  if (nibbles)
    tensors[0].plan = {layout.name + "_packed", SafetensorsType::kI32, {rows, columns / 8}};
  tensors[0].write = [&](const ByteSink& sink) { return WriteIntegers(layout, supply, sink); };
  tensors[1].plan = {layout.name + "_scale", scales, {rows, groups}};
  tensors[1].write = [&, scales](const ByteSink& sink) {
    return WriteScales(layout, scales, supply, sink);
  };
  if (!nibbles)
    return tensors;
  tensors.emplace_back();
  tensors[2].plan = {layout.name + "_shape", SafetensorsType::kI64, {2}};
  tensors[2].write = [&layout](const ByteSink& sink) {
    return sink(std::as_bytes(std::span(layout.shape)));
  };
  return tensors;
}

PlannedTensor PlanCopy(const SafetensorsTensor& tensor, const MappedFile& file,
                       std::optional<SafetensorsType> floats) {
  const bool converts = floats && HasFloatValues(tensor.type) && tensor.type != *floats;
  PlannedTensor planned;
  planned.plan = {tensor.name, converts ? *floats : tensor.type, tensor.shape};
  planned.write = [&tensor, &file, converts,
                   to = planned.plan.type](const ByteSink& sink) -> Status {
    std::vector<std::byte> piece;
    std::vector<std::byte> converted;
    std::vector<float> values;
    for (uint64_t done = 0; done < tensor.bytes; done += piece.size()) {
      piece.resize(std::min<uint64_t>(kPieceBytes, tensor.bytes - done));
      TENON_RETURN_IF_ERROR(file.ReadAt(tensor.offset + done, piece));
      if (!converts) {
        TENON_RETURN_IF_ERROR(sink(piece));
        continue;
      }
      values.resize(piece.size() / GetSafetensorsTypeInfo(tensor.type).bytes);
      DecodeValues(tensor.type, piece, values);
      converted.clear();
      for (const float value : values)
        AppendFloat(value, to, converted);
      TENON_RETURN_IF_ERROR(sink(converted));
    }
    return {};
  };
  return planned;
}

}  // namespace tenon

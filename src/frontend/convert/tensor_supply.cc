#include "frontend/convert/tensor_supply.h"

#include "quant/blocks.h"
#include "quant/dequantize.h"
#include "quant/quantize.h"

namespace tenon {

int64_t SupplyRows(const TensorInfo& tensor) {
  return tensor.shape.size() == 1 ? tensor.shape[0] : tensor.rows();
}

int64_t SupplyColumns(const TensorInfo& tensor) {
  return tensor.shape.size() == 1 ? 1 : tensor.columns();
}

Status SourceSupply::ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) {
  const int64_t row_bytes = DTypeRowBytes(tensor.dtype, SupplyColumns(tensor));
  return source_.ReadAt(tensor, static_cast<uint64_t>(first * row_bytes), out);
}

TensorForm RoundingSupply::FormOf(const TensorInfo& tensor) const {
  // Tables, the head and routers stay: their rows are looked up, or decide.
  const bool layer = tensor.name.starts_with("blk.") && tensor.name.ends_with(".weight");
  const bool router = tensor.name.find("_inp") != std::string::npos;
  if (!layer || router || tensor.shape.size() < 2 || tensor.columns() % kSmallBlock != 0)
    return below_.FormOf(tensor);
  return {dtype_, kSmallBlock};
}

Status RoundingSupply::ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) {
  const DType to = FormOf(tensor).dtype;
  if (to == tensor.dtype)
    return below_.ReadRows(tensor, first, out);
  const auto to_bytes = static_cast<size_t>(DTypeRowBytes(to, tensor.columns()));
  row_.resize(static_cast<size_t>(DTypeRowBytes(tensor.dtype, tensor.columns())));
  values_.resize(static_cast<size_t>(tensor.columns()));
  for (size_t at = 0; at < out.size(); at += to_bytes) {
    TENON_RETURN_IF_ERROR(below_.ReadRows(tensor, first++, row_));
    DequantizeRow(tensor.dtype, row_, values_);
    QuantizeRow(to, values_, out.subspan(at, to_bytes));
  }
  return {};
}

}  // namespace tenon

#include "frontend/quantize/model_output.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "frontend/convert/gguf_export.h"
#include "frontend/convert/hf_export.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/session/source_weights.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Tells the engine how to quantize activations (docs/quantization.md).
constexpr std::string_view kActivationsKey = "tenon.activation_quantization";

bool IsGgufPath(const fs::path& path) {
  return path.extension() == ".gguf";
}

// How the model was quantized.
void EditMetadata(const OutputContext& context, GgufMetadataBuilder& metadata) {
  const QuantizeOptions& options = context.options;
  metadata.SetUint32("general.file_type", context.types.FileType());
  metadata.SetUint32("general.quantization_version", 2);
  metadata.SetString("tenon.quantize.method", QuantizeMethodName(options.method));
  metadata.SetString("tenon.quantize.type", context.types.Name());
  metadata.SetUint32("tenon.quantize.activation_bits",
                     static_cast<uint32_t>(options.activation_bits));
  metadata.Remove(kActivationsKey);  // the input's
  if (options.activation_bits == 8)
    metadata.SetString(kActivationsKey, kInt8PerTokenName);
}

Result<WrittenModel> WriteGguf(const OutputContext& context, const fs::path& path) {
  GgufExportOptions options;
  options.shard_bytes = context.options.shard_bytes;
  options.edit = [&context](GgufMetadataBuilder& metadata) { EditMetadata(context, metadata); };
  QuantizedSupply supply(context);
  WrittenModel written;
  TENON_ASSIGN_OR_RETURN(written.path, ExportGguf(context.source, supply, options, path));
  for (const TensorInfo& tensor : context.source.tensors) {
    const int64_t row_bytes = DTypeRowBytes(supply.FormOf(tensor).dtype, SupplyColumns(tensor));
    written.bytes += row_bytes * SupplyRows(tensor);
  }
  return written;
}

Result<WrittenModel> WriteHf(const OutputContext& context, const fs::path& path) {
  HfExportOptions options;
  options.packed = PackedWeights::kCompressedTensors;
  options.activation_bits = context.options.activation_bits == 8 ? 8 : 0;
  options.shard_bytes = context.options.shard_bytes;
  QuantizedSupply supply(context);
  TENON_RETURN_IF_ERROR(ExportHf(context.source, supply, options, path));
  WrittenModel written{path, 0};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".safetensors")
      written.bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return written;
}

}  // namespace

Status CheckOutput(const ModelSource& source, const QuantizeOptions& options,
                   const fs::path& path) {
  if (IsGgufPath(path)) {
    GgufExportOptions exported;
    exported.shard_bytes = options.shard_bytes;
    return CheckGgufExport(source, exported);
  }
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    return InvalidArgument("a .gguf file or a directory expected", path.string());
  if (fs::exists(path / "config.json", error))
    return InvalidArgument("there is a model in the directory", path.string());
  return {};
}

TensorForm QuantizedSupply::FormOf(const TensorInfo& tensor) const {
  const std::optional<GridSpec> grid = context_.types.GridOf(tensor);
  const int64_t group = grid ? grid->group : 32;
  if (const SegmentStore::StoredTensor* stored = context_.store.Find(tensor.name))
    return {stored->dtype, group};
  if (grid)
    return {grid->container, group};
  return {tensor.shape.size() < 2 ? DType::kF32 : tensor.dtype, group};
}

Result<std::vector<std::byte>> QuantizedSupply::Encode(const TensorInfo& tensor) const {
  if (const SegmentStore::StoredTensor* stored = context_.store.Find(tensor.name))
    return std::vector<std::byte>(stored->bytes.begin(), stored->bytes.end());
  const std::optional<GridSpec> grid = context_.types.GridOf(tensor);
  if (!grid && FormOf(tensor).dtype == tensor.dtype) {
    std::vector<std::byte> bytes(tensor.bytes);
    TENON_RETURN_IF_ERROR(context_.source.ReadAt(tensor, 0, bytes));
    return bytes;
  }
  TENON_ASSIGN_OR_RETURN(const Matrix values,
                         LoadMatrix(SourceWeights(context_.source), tensor.name));
  if (grid)
    return EncodeMatrix(tensor, values, *grid, context_.engine).bytes;
  const auto bytes = std::as_bytes(values.values());
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Status QuantizedSupply::ReadRows(const TensorInfo& tensor, int64_t first,
                                 std::span<std::byte> out) {
  if (cached_ != tensor.name) {
    TENON_ASSIGN_OR_RETURN(bytes_, Encode(tensor));
    cached_ = tensor.name;
  }
  const int64_t row_bytes = DTypeRowBytes(FormOf(tensor).dtype, SupplyColumns(tensor));
  const auto offset = static_cast<size_t>(first * row_bytes);
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
    return MakeError(ErrorCode::kInternal, "rows past the tensor's end", tensor.name);
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return {};
}

void QuantizedSupply::Release(const TensorInfo& tensor) {
  cached_.clear();
  bytes_ = {};
  context_.source.Release(tensor, 0, tensor.bytes);
}

Result<WrittenModel> WriteModel(const OutputContext& context, const fs::path& path) {
  return IsGgufPath(path) ? WriteGguf(context, path) : WriteHf(context, path);
}

}  // namespace tenon

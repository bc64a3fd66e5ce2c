#include "frontend/quantize/model_output.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "frontend/quantize/layered_weights.h"
#include "frontend/session/source_weights.h"
#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"

namespace tenon {
namespace {

// Tells the engine how to quantize activations (docs/quantization.md).
constexpr std::string_view kActivationsKey = "tenon.activation_quantization";

bool IsGgufPath(const std::filesystem::path& path) {
  return path.extension() == ".gguf";
}

bool IsGgufSource(const ModelSource& source) {
  return source.format.starts_with("gguf");
}

// The input's metadata, without what is about its files, and how it was quantized.
Result<GgufMetadataBuilder> OutputMetadata(const OutputContext& context) {
  GgufMetadataBuilder metadata;
  TENON_ASSIGN_OR_RETURN(const GgufFile input,
                         ParseGguf(context.source.files.front().bytes(), "the input"));
  for (const GgufEntry& entry : input.metadata.entries()) {
    if (!entry.key.starts_with("split.") && entry.key != "general.alignment" &&
        entry.key != kActivationsKey)
      metadata.SetCopy(entry);
  }
  const QuantizeOptions& options = context.options;
  metadata.SetUint32("general.file_type", context.types.FileType());
  metadata.SetUint32("general.quantization_version", 2);
  metadata.SetString("tenon.quantize.method", QuantizeMethodName(options.method));
  metadata.SetString("tenon.quantize.type", context.types.Name());
  metadata.SetUint32("tenon.quantize.activation_bits",
                     static_cast<uint32_t>(options.activation_bits));
  if (options.activation_bits == 8)
    metadata.SetString(kActivationsKey, kInt8PerTokenName);
  return metadata;
}

}  // namespace

Status CheckOutput(const ModelSource& source, const std::filesystem::path& path) {
  if (IsGgufPath(path) && IsGgufSource(source))
    return {};
  return Unsupported(
      fmt::format("the input is {}; only GGUF files can be quantized, to .gguf files",
                  source.format),
      path.string());
}

EncodedTensor OutputTensorPlan(const OutputContext& context, const TensorInfo& tensor) {
  if (const SegmentStore::StoredTensor* stored = context.store.Find(tensor.name))
    return {tensor.name, stored->dtype, tensor.shape, {}};
  if (const std::optional<GridSpec> grid = context.types.GridOf(tensor))
    return {tensor.name, grid->container, tensor.shape, {}};
  return {tensor.name, tensor.shape.size() < 2 ? DType::kF32 : tensor.dtype, tensor.shape, {}};
}

Result<EncodedTensor> OutputTensor(const OutputContext& context, const TensorInfo& tensor) {
  EncodedTensor encoded = OutputTensorPlan(context, tensor);
  if (const SegmentStore::StoredTensor* stored = context.store.Find(tensor.name)) {
    encoded.bytes.assign(stored->bytes.begin(), stored->bytes.end());
    return encoded;
  }
  const SourceWeights weights(context.source);
  const std::optional<GridSpec> grid = context.types.GridOf(tensor);
  if (!grid && encoded.dtype == tensor.dtype) {
    const auto bytes = context.source.Bytes(tensor);
    encoded.bytes.assign(bytes.begin(), bytes.end());
    return encoded;
  }
  TENON_ASSIGN_OR_RETURN(const Matrix values, LoadMatrix(weights, tensor.name));
  if (grid)
    return EncodeMatrix(tensor, values, *grid, context.engine);
  const auto bytes = std::as_bytes(values.values());
  encoded.bytes.assign(bytes.begin(), bytes.end());
  return encoded;
}

Result<int64_t> WriteModel(const OutputContext& context, const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(const GgufMetadataBuilder metadata, OutputMetadata(context));
  std::vector<GgufTensorPlan> plans;
  for (const TensorInfo& tensor : context.source.tensors) {
    EncodedTensor plan = OutputTensorPlan(context, tensor);
    plans.push_back({std::move(plan.name), plan.dtype, std::move(plan.shape)});
  }
  TENON_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Create(path, metadata, std::move(plans)));
  int64_t bytes = 0;
  for (const TensorInfo& tensor : context.source.tensors) {
    TENON_ASSIGN_OR_RETURN(const EncodedTensor encoded, OutputTensor(context, tensor));
    bytes += static_cast<int64_t>(encoded.bytes.size());
    TENON_RETURN_IF_ERROR(writer.WriteTensor(encoded.bytes));
    context.source.Release(tensor, 0, tensor.bytes);
  }
  TENON_RETURN_IF_ERROR(writer.Close());
  return bytes;
}

}  // namespace tenon

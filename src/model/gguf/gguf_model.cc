#include "model/gguf/gguf_model.h"

#include <fmt/format.h>

#include <utility>

#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_fields.h"
#include "model/gguf/gguf_shards.h"

namespace tenon {
namespace {

Status TakeTensors(std::span<GgufFile> shards, ModelSource& source) {
  for (size_t file = 0; file < shards.size(); ++file) {
    for (TensorInfo& tensor : shards[file].tensors) {
      tensor.file = static_cast<uint32_t>(file);
      if (!source.by_name.emplace(tensor.name, source.tensors.size()).second) {
        return Corrupt(fmt::format("the tensor '{}' is in an earlier shard too", tensor.name),
                       shards[file].metadata.name());
      }
      source.tensors.push_back(std::move(tensor));
    }
  }
  return {};
}

void PrintMetadata(const GgufMetadata& metadata, ModelSource& source) {
  source.metadata.reserve(metadata.entries().size());
  for (const GgufEntry& entry : metadata.entries())
    source.metadata.emplace_back(entry.key, PrintGgufValue(entry.value));
}

// Our own key (docs/quantization.md). A value that we don't know asks for sums that we don't make.
Status TakeActivations(const GgufMetadata& metadata, ModelSource& source) {
  constexpr std::string_view kKey = "tenon.activation_quantization";
  TENON_ASSIGN_OR_RETURN(const auto format, metadata.String(kKey));
  if (!format.has_value())
    return {};
  if (*format != kInt8PerTokenName) {
    return Unsupported(fmt::format("'{}', where '{}' is known", *format, kInt8PerTokenName),
                       fmt::format("{}: {}", metadata.name(), kKey));
  }
  source.activations = ActivationFormat::kInt8PerToken;
  return {};
}

}  // namespace

Result<ModelSource> ModelFromGguf(std::span<GgufFile> shards) {
  ModelSource source;
  const GgufMetadata& metadata = shards.front().metadata;
  source.format = fmt::format("gguf v{}", shards.front().version);
  TENON_RETURN_IF_ERROR(TakeTensors(shards, source));
  TENON_RETURN_IF_ERROR(FillGgufConfig(metadata, source));
  TENON_RETURN_IF_ERROR(TakeActivations(metadata, source));
  TENON_ASSIGN_OR_RETURN(const auto chat_template, metadata.String("tokenizer.chat_template"));
  source.chat_template = chat_template.value_or("");
  // Last, because its tables are copied: an error before costs no memory.
  TENON_ASSIGN_OR_RETURN(source.tokenizer, ReadGgufTokenizer(metadata));
  if (source.config.vocab_size == 0)
    source.config.vocab_size = static_cast<int64_t>(source.tokenizer.tokens.size());
  PrintMetadata(metadata, source);
  return source;
}

Result<ModelSource> OpenGguf(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(GgufShards shards, OpenGgufShards(path));
  TENON_ASSIGN_OR_RETURN(ModelSource source, ModelFromGguf(shards.parsed));
  if (source.config.name.empty())
    source.config.name = path.stem().string();
  source.files = std::move(shards.files);
  if (source.config.architecture == "deepseek2")
    TENON_RETURN_IF_ERROR(MergeLatentTensors(source));
  return source;
}

}  // namespace tenon

#include "model/hf/hf_model.h"

#include <fmt/format.h>

#include <system_error>

#include "base/file_io.h"
#include "model/gguf/gguf_reader.h"
#include "model/hf/hf_config.h"
#include "model/hf/hf_tensors.h"
#include "model/hf/hf_text_files.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

bool StartsAsGguf(const fs::path& path) {
  const auto file = MappedFile::Open(path);
  return file.ok() && IsGguf(file->bytes());
}

// "org/name" of a snapshot in the Hugging Face cache, models--org--name/snapshots/<commit>; else
// the directory's own name.
std::string NameOf(const fs::path& directory) {
  std::error_code error;
  fs::path whole = fs::absolute(directory, error).lexically_normal();
  if (!whole.has_filename())
    whole = whole.parent_path();
  const std::string parent = whole.parent_path().filename().string();
  std::string cached = whole.parent_path().parent_path().filename().string();
  constexpr std::string_view kPrefix = "models--";
  if (parent != "snapshots" || !cached.starts_with(kPrefix))
    return whole.filename().string();
  cached.erase(0, kPrefix.size());
  if (const size_t dashes = cached.find("--"); dashes != std::string::npos)
    cached.replace(dashes, 2, "/");
  return cached;
}

// The embedding's size is what the rest must fit.
Status CheckVocabulary(const HfConfig& config, const JsonValue& root, const ModelSource& source) {
  const TensorInfo* embedding = source.Find("token_embd.weight");
  if (embedding == nullptr)
    return root.Wrong("the tensor model.embed_tokens.weight is missing from the model's files");
  if (embedding->shape.size() != 2 || embedding->rows() != config.model.vocab_size) {
    return root.Member("vocab_size", root.element())
        .Wrong(fmt::format("{} found, but model.embed_tokens.weight has {} rows",
                           config.model.vocab_size, embedding->rows()));
  }
  if (embedding->columns() == config.model.hidden_size)
    return {};
  return root.Member("hidden_size", root.element())
      .Wrong(fmt::format("{} found, but model.embed_tokens.weight has rows of {} values",
                         config.model.hidden_size, embedding->columns()));
}

// Files that older quantizers write beside a config.json that says nothing.
Result<std::optional<PackedFormat>> ReadOldPackedFormat(const fs::path& directory) {
  for (const auto& [name, method] :
       {std::pair("quantize_config.json", "gptq"), std::pair("quant_config.json", "awq")}) {
    std::error_code error;
    if (!fs::exists(directory / name, error))
      continue;
    TENON_ASSIGN_OR_RETURN(const JsonDocument document, ReadJsonFile(directory / name));
    TENON_ASSIGN_OR_RETURN(const PackedFormat format, ReadPackedFormat(document.root(), method));
    return std::optional<PackedFormat>(format);
  }
  return std::optional<PackedFormat>();
}

Result<HfTensorOptions> ReadTensorOptions(const fs::path& directory, const JsonValue& root) {
  HfTensorOptions options;
  const auto quantization = root.Find("quantization_config");
  if (!quantization) {
    TENON_ASSIGN_OR_RETURN(options.packed, ReadOldPackedFormat(directory));
    return options;
  }
  TENON_ASSIGN_OR_RETURN(const std::string method, quantization->StringOr("quant_method", ""));
  if (method == "gptq" || method == "awq") {
    TENON_ASSIGN_OR_RETURN(options.packed, ReadPackedFormat(*quantization, method));
  }
  if (method == "compressed-tensors") {
    TENON_RETURN_IF_ERROR(CheckCompressedTensors(*quantization));
    options.compressed = true;
  }
  const auto block = quantization ? quantization->Find("weight_block_size") : std::nullopt;
  if (!block)
    return options;
  TENON_ASSIGN_OR_RETURN(const auto sizes, block->Array());
  int64_t rows = 0;
  int64_t columns = 0;
  if (sizes.size() != 2 || sizes.at(0).get_int64().get(rows) != simdjson::SUCCESS ||
      sizes.at(1).get_int64().get(columns) != simdjson::SUCCESS || rows < 1 || columns < 1 ||
      rows > INT32_MAX || columns > INT32_MAX)
    return block->Wrong("two sizes expected");
  options.fp8_block_rows = rows;
  options.fp8_block_columns = columns;
  return options;
}

// How sentence-transformers makes a text's vector: 1_Pooling/config.json, if there is one.
Status ReadPooling(const fs::path& directory, ModelConfig& config) {
  const fs::path path = directory / "1_Pooling" / "config.json";
  std::error_code error;
  if (config.pooling == Pooling::kNone || !fs::exists(path, error))
    return {};
  TENON_ASSIGN_OR_RETURN(const JsonDocument document, ReadJsonFile(path));
  const JsonValue root = document.root();
  const std::pair<std::string_view, Pooling> known[] = {
      {"pooling_mode_mean_tokens", Pooling::kMean},
      {"pooling_mode_cls_token", Pooling::kFirst},
      {"pooling_mode_lasttoken", Pooling::kLast}};
  int found = 0;
  for (const auto& [key, pooling] : known) {
    TENON_ASSIGN_OR_RETURN(const bool used, root.BoolOr(key, false));
    if (!used)
      continue;
    config.pooling = pooling;
    ++found;
  }
  if (found == 1)
    return {};
  return root.NotSupported("one of the poolings mean, cls and lasttoken expected");
}

void PrintConfig(const JsonValue& root, ModelSource& source) {
  const auto object = root.Object();
  if (!object.ok())
    return;
  for (const auto& [key, value] : *object)
    source.metadata.emplace_back(fmt::format("config.{}", key), simdjson::to_string(value));
}

}  // namespace

fs::path FindHfDirectory(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return fs::exists(path / "config.json", error) ? path : fs::path();
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool inside = fs::is_regular_file(path, error) &&
                      fs::exists(directory / "config.json", error) && !StartsAsGguf(path);
  return inside && path.extension() != ".gguf" ? directory : fs::path();
}

Result<ModelSource> OpenHfModel(const fs::path& directory) {
  TENON_ASSIGN_OR_RETURN(const JsonDocument document, ReadJsonFile(directory / "config.json"));
  const JsonValue root = document.root();
  TENON_ASSIGN_OR_RETURN(const HfConfig config, ReadHfConfig(root));
  TENON_ASSIGN_OR_RETURN(const HfTensorOptions options, ReadTensorOptions(directory, root));
  TENON_ASSIGN_OR_RETURN(SafetensorsShards shards, OpenSafetensorsShards(directory));
  ModelSource source;
  source.format = "safetensors";
  source.config = config.model;
  source.config.name = NameOf(directory);
  TENON_RETURN_IF_ERROR(TakeHfTensors(std::move(shards), config, options, source));
  TENON_RETURN_IF_ERROR(CheckVocabulary(config, root, source));
  TENON_RETURN_IF_ERROR(ReadPooling(directory, source.config));
  TENON_RETURN_IF_ERROR(ReadHfTextFiles(directory, root, source));
  PrintConfig(root, source);
  return source;
}

}  // namespace tenon

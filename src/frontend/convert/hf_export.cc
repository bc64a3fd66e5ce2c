#include "frontend/convert/hf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file_io.h"
#include "frontend/convert/hf_config_json.h"
#include "frontend/convert/hf_layout.h"
#include "frontend/convert/hf_tensor_files.h"
#include "frontend/convert/layout_writer.h"
#include "frontend/convert/packed_form.h"
#include "frontend/convert/tokenizer_json_writer.h"
#include "model/json/json_document.h"
#include "model/safetensors/safetensors_shards.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Files of a directory that say nothing about the weights.
constexpr std::array<const char*, 12> kTextFiles = {"tokenizer.json",
                                                    "tokenizer_config.json",
                                                    "special_tokens_map.json",
                                                    "generation_config.json",
                                                    "chat_template.jinja",
                                                    "chat_template.json",
                                                    "tokenizer.model",
                                                    "vocab.json",
                                                    "merges.txt",
                                                    "added_tokens.json",
                                                    "modules.json",
                                                    "1_Pooling/config.json"};
constexpr uint64_t kMaxConfigBytes = 32 << 20;

Status WriteJson(const fs::path& path, const Json& json) {
  return WriteFileAtomic(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// The type of floats in config.json, as torch calls it.
std::string_view TorchName(SafetensorsType type) {
  if (type == SafetensorsType::kF16)
    return "float16";
  return type == SafetensorsType::kBF16 ? "bfloat16" : "float32";
}

class Exporter {
 public:
  Exporter(const ModelSource& source, TensorSupply& supply, const HfExportOptions& options,
           fs::path directory)
      : source_(source), supply_(supply), options_(options), directory_(std::move(directory)) {}

  Status Run();
  // A Hugging Face directory's own tensors, under their own names.
  Status Copy();

 private:
  // Where the input lies; empty for a GGUF file, whose neighbours are not the model's.
  fs::path InputDirectory() const;
  Status Prepare();
  Result<Json> ReadConfig() const;
  Result<const HfFamily*> Family() const;
  SafetensorsType FloatType(const HfTensorLayout& layout) const;
  SafetensorsType MainType() const;
  void PlanTensors();
  std::string_view TypeKey() const { return config_.contains("dtype") ? "dtype" : "torch_dtype"; }
  Status WriteTexts();
  Status WriteConfig();

  const ModelSource& source_;
  TensorSupply& supply_;
  const HfExportOptions& options_;
  fs::path directory_;
  Json config_;
  std::vector<HfTensorLayout> layouts_;
  std::vector<PlannedTensor> tensors_;
  PackedModules packed_;
};

fs::path Exporter::InputDirectory() const {
  if (source_.format.starts_with("gguf") || source_.files.empty())
    return {};
  return source_.files.front().path().parent_path();
}

Status Exporter::Prepare() {
  std::error_code error;
  if (fs::exists(directory_ / "config.json", error))
    return InvalidArgument("there is a model already: config.json", directory_.string());
  return CreateDirectories(directory_);
}

Result<Json> Exporter::ReadConfig() const {
  const fs::path path = InputDirectory() / "config.json";
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxConfigBytes));
  Json json = Json::parse(StrictJson(text), nullptr, false);
  if (!json.is_object())
    return Corrupt("an object expected", path.string());
  return json;
}

Result<const HfFamily*> Exporter::Family() const {
  const auto names = config_.find("architectures");
  if (names != config_.end() && names->is_array() && names->size() == 1 &&
      names->front().is_string())
    if (const HfFamily* family = FindHfFamily(names->front().get<std::string>()))
      return family;
  return FindHfFamilyOf(source_.config);
}

SafetensorsType Exporter::FloatType(const HfTensorLayout& layout) const {
  if (options_.floats)
    return *options_.floats;
  // A vector is float32 in memory, whatever it was: it goes with the matrices.
  if (layout.shape.size() == 1)
    return MainType();
  const DType dtype = CommonForm(layout, supply_).dtype;
  if (dtype == DType::kF32)
    return SafetensorsType::kF32;
  return dtype == DType::kBF16 ? SafetensorsType::kBF16 : SafetensorsType::kF16;
}

// That of the first matrix of floats; of quantized models F16.
SafetensorsType Exporter::MainType() const {
  if (options_.floats)
    return *options_.floats;
  for (const HfTensorLayout& layout : layouts_) {
    if (layout.shape.size() > 1 && !IsQuantized(CommonForm(layout, supply_).dtype))
      return FloatType(layout);
  }
  return SafetensorsType::kF16;
}

void Exporter::PlanTensors() {
  const bool packs = options_.packed == PackedWeights::kCompressedTensors;
  const SafetensorsType scales =
      MainType() == SafetensorsType::kF32 ? SafetensorsType::kF32 : SafetensorsType::kF16;
  for (const HfTensorLayout& layout : layouts_) {
    if (packs && CanPack(layout, supply_)) {
      for (PlannedTensor& part : PlanPacked(layout, scales, supply_))
        tensors_.push_back(std::move(part));
      packed_.by_scheme[SchemeOf(CommonForm(layout, supply_))].push_back(layout.module());
      continue;
    }
    if (layout.linear)
      packed_.ignored.push_back(layout.module());
    tensors_.push_back(PlanFloats(layout, FloatType(layout), supply_));
  }
  // A head that is the embedding is a module of its own for readers.
  if (source_.Find("output.weight") == nullptr)
    packed_.ignored.emplace_back("lm_head");
  packed_.activation_bits = options_.activation_bits;
}

Status Exporter::WriteTexts() {
  if (const fs::path input = InputDirectory(); !input.empty()) {
    for (const fs::path name : kTextFiles) {
      std::error_code error;
      if (!fs::exists(input / name, error))
        continue;
      TENON_RETURN_IF_ERROR(CreateDirectories((directory_ / name).parent_path()));
      fs::copy_file(input / name, directory_ / name, fs::copy_options::overwrite_existing, error);
      if (error)
        return MakeError(ErrorCode::kIo, error.message(), (directory_ / name).string());
    }
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const Json tokenizer, MakeTokenizerJson(source_.tokenizer));
  TENON_RETURN_IF_ERROR(
      WriteFileAtomic(directory_ / "tokenizer.json",
                      tokenizer.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
  TENON_RETURN_IF_ERROR(WriteJson(directory_ / "tokenizer_config.json",
                                  MakeTokenizerConfig(source_.tokenizer, source_.chat_template)));
  return WriteJson(directory_ / "generation_config.json", MakeGenerationConfig(source_.tokenizer));
}

Status Exporter::WriteConfig() {
  config_[TypeKey()] = TorchName(MainType());
  config_.erase("quantization_config");
  if (!packed_.by_scheme.empty())
    config_["quantization_config"] = QuantizationConfig(packed_);
  return WriteJson(directory_ / "config.json", config_);
}

Status Exporter::Copy() {
  TENON_ASSIGN_OR_RETURN(config_, ReadConfig());
  TENON_ASSIGN_OR_RETURN(const SafetensorsShards shards, OpenSafetensorsShards(InputDirectory()));
  for (size_t file = 0; file < shards.files.size(); ++file) {
    for (const SafetensorsTensor& tensor : shards.parsed[file].tensors)
      tensors_.push_back(PlanCopy(tensor, shards.files[file], options_.floats));
  }
  TENON_RETURN_IF_ERROR(Prepare());
  TENON_RETURN_IF_ERROR(WriteTexts());
  TENON_RETURN_IF_ERROR(WriteTensorFiles(std::move(tensors_), options_.shard_bytes, directory_));
  if (options_.floats)
    config_[TypeKey()] = TorchName(*options_.floats);
  return WriteJson(directory_ / "config.json", config_);
}

Status Exporter::Run() {
  const bool is_hf = source_.format == "safetensors";
  if (is_hf) {
    TENON_ASSIGN_OR_RETURN(config_, ReadConfig());
  }
  TENON_ASSIGN_OR_RETURN(const HfFamily* family, Family());
  if (!is_hf) {
    TENON_ASSIGN_OR_RETURN(config_, MakeHfConfig(source_, *family));
  }
  TENON_ASSIGN_OR_RETURN(layouts_, LayOutHfTensors(source_, *family));
  PlanTensors();
  TENON_RETURN_IF_ERROR(Prepare());
  TENON_RETURN_IF_ERROR(WriteTexts());
  TENON_RETURN_IF_ERROR(WriteTensorFiles(std::move(tensors_), options_.shard_bytes, directory_));
  return WriteConfig();
}

}  // namespace

Status ExportHf(const ModelSource& source, const HfExportOptions& options,
                const fs::path& directory) {
  SourceSupply supply(source);
  Exporter exporter(source, supply, options, directory);
  const bool quantized =
      std::ranges::any_of(source.tensors,
                          [](const TensorInfo& tensor) { return IsQuantized(tensor.dtype); }) ||
      std::ranges::any_of(source.metadata, [](const auto& entry) {
        return entry.first == "config.quantization_config";
      });
  return source.format == "safetensors" && !quantized ? exporter.Copy() : exporter.Run();
}

Status ExportHf(const ModelSource& source, TensorSupply& supply, const HfExportOptions& options,
                const fs::path& directory) {
  return Exporter(source, supply, options, directory).Run();
}

}  // namespace tenon

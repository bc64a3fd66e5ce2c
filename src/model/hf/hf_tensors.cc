#include "model/hf/hf_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "model/column_order.h"
#include "model/fused_tensors.h"
#include "model/hf/fp8_weights.h"
#include "model/safetensors/value_decoder.h"

namespace tenon {
namespace {

// Buffers that old checkpoints hold; they follow from the hyperparameters.
constexpr std::string_view kDerived = "rotary_emb.inv_freq";

// The parts of a matrix of small integers (packed_weights.h).
constexpr std::string_view kPackedValues = "qweight";
bool IsPackedPart(std::string_view kind) {
  return kind == kPackedValues || kind == "qzeros" || kind == "scales" || kind == "g_idx";
}
// Those of compressed-tensors; "weight_scale" is FP8's too.
constexpr std::string_view kCompressedValues = "weight_packed";
bool IsCompressedPart(std::string_view kind) {
  return kind == kCompressedValues || kind == "weight_shape" || kind == "weight_zero_point" ||
         kind == "weight_g_idx";
}

// A tensor's place in the model.
struct Place {
  std::string stem;       // "blk.3.attn_q"; empty: it is left out
  std::string_view kind;  // "weight", "bias", "weight_scale", ...
};

std::string_view FindName(std::span<const HfName> names, std::string_view hf) {
  for (const HfName& name : names) {
    if (name.hf == hf)
      return name.gguf;
  }
  return {};
}

// The number at the begin of `text`, which is moved behind it and the dot that follows; -1 when
// that is not there or the number is `end` or more.
int64_t TakeIndex(std::string_view& text, int64_t end) {
  int64_t index = -1;
  const char* const first = text.data();
  const char* const last = first + text.size();
  const auto [rest, code] = std::from_chars(first, last, index);
  if (code != std::errc() || rest == last || *rest != '.' || index < 0 || index >= end)
    return -1;
  text.remove_prefix(static_cast<size_t>(rest + 1 - first));
  return index;
}

// The stem of a module of a layer without its "blk.<layer>."; empty when the family has none.
std::string FindLayerStem(const HfConfig& config, std::string_view module) {
  const HfFamily& family = *config.family;
  if (family.expert_names.empty() || !module.starts_with(family.expert_prefix))
    return std::string(FindName(family.layer_names, module));
  module.remove_prefix(family.expert_prefix.size());
  const int64_t expert = TakeIndex(module, config.model.experts.count);
  const std::string_view name = FindName(family.expert_names, module);
  return expert < 0 || name.empty() ? std::string() : fmt::format("{}.{}", name, expert);
}

bool IsIgnored(const HfFamily& family, std::string_view module, std::string_view kind) {
  return std::ranges::any_of(family.ignored, [&](std::string_view name) {
    return name.size() == module.size() + 1 + kind.size() && name.starts_with(module) &&
           name.ends_with(kind);
  });
}

// The place of a tensor by its name; none when the family has no such module.
std::optional<Place> FindPlace(const HfConfig& config, std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos)
    return std::nullopt;
  const HfFamily& family = *config.family;
  std::string_view module = name.substr(0, dot);
  const std::string_view kind = name.substr(dot + 1);
  if (module.starts_with(family.root))
    module.remove_prefix(family.root.size());
  if (const std::string_view top = FindName(family.top_names, module); !top.empty())
    return Place{std::string(top), kind};
  if (IsIgnored(family, module, kind))
    return Place{};
  if (!module.starts_with(family.layer_prefix))
    return std::nullopt;
  module.remove_prefix(family.layer_prefix.size());
  const int64_t layer = TakeIndex(module, config.model.layer_count + config.draft_layers);
  if (layer >= config.model.layer_count || (layer >= 0 && IsIgnored(family, module, kind)))
    return Place{};
  // The router's second vector is a part of its module.
  if (layer >= 0 && kind == "e_score_correction_bias" && module == "mlp.gate")
    return Place{fmt::format("blk.{}.exp_probs_b", layer), "bias"};
  const std::string part = FindLayerStem(config, module);
  if (layer < 0 || part.empty())
    return std::nullopt;
  return Place{fmt::format("blk.{}.{}", layer, part), kind};
}

// What has biases in a family that has them everywhere.
bool IsTable(std::string_view stem) {
  return stem == "token_embd" || stem == "position_embd" || stem == "token_types" ||
         stem == "output";
}

bool IsAttention(std::string_view stem) {
  return stem.ends_with(".attn_q") || stem.ends_with(".attn_k") || stem.ends_with(".attn_v");
}

// Whether the module has a bias, as config.json says.
bool HasBias(const HfConfig& config, std::string_view stem) {
  if (config.family->all_biases)
    return !IsTable(stem);
  if (stem.ends_with(".attn_q_a") || stem.ends_with(".attn_kv_a_mqa"))
    return config.attention_bias;
  if (stem.ends_with(".exp_probs_b"))
    return true;
  if (IsAttention(stem))
    return config.attention_bias || config.qkv_bias;
  if (stem.ends_with(".attn_output"))
    return config.attention_bias;
  const bool feed_forward =
      stem.ends_with(".ffn_gate") || stem.ends_with(".ffn_up") || stem.ends_with(".ffn_down");
  return feed_forward && config.mlp_bias;
}

class TensorTaker {
 public:
  TensorTaker(const SafetensorsShards& shards, const HfConfig& config,
              const HfTensorOptions& options, ModelSource& source)
      : shards_(shards), config_(config), options_(options), source_(source) {}

  Status TakeAll();
  // Names of column orders that other names stand for too: to be made known once no tensor moves.
  const std::vector<std::pair<std::string, std::string>>& same_orders() const {
    return same_orders_;
  }

 private:
  struct Found {
    const SafetensorsTensor* tensor = nullptr;
    uint32_t file = 0;
  };

  std::span<const std::byte> Bytes(const Found& found) const {
    return shards_.files[found.file].bytes().subspan(found.tensor->offset, found.tensor->bytes);
  }
  Error Wrong(const Found& found, std::string_view message) const {
    return Corrupt(fmt::format("the tensor '{}': {}", found.tensor->name, message),
                   shards_.files[found.file].path().string());
  }
  Error NotSupported(const Found& found, std::string_view message) const {
    Error error = Wrong(found, message);
    error.code = ErrorCode::kUnsupported;
    return error;
  }

  Status Sort(const Found& found);
  Status Take(const std::string& name, const Found& found);
  Status TakeVector(const Found& found, TensorInfo info);
  Status TakeFp8(const std::string& stem, const Found& found, TensorInfo info);
  Status TakePacked(const std::string& stem, const Found& found);
  Status TakeCompressed(const std::string& stem, const Found& found);
  Status PutUnpacked(const std::string& stem, const Found& found, const PackedFormat& format,
                     const PackedParts& parts);
  Status PutOrder(const std::string& stem, const std::vector<int32_t>& order);
  Result<std::vector<float>> Floats(const Found& found) const;
  Status ReadGroups(const Found& found, PackedParts& parts) const;
  Result<std::pair<int64_t, int64_t>> CompressedShape(const std::string& stem,
                                                      const Found& found) const;
  Result<Found> PartOf(const std::string& stem, std::string_view kind) const;
  Result<PackedParts> PartsOf(const std::string& stem, const Found& found) const;
  Status TakeAsF32(const Found& found, TensorInfo info, float addend);
  void Put(TensorInfo info);
  void PutBuffer(TensorInfo info, Buffer buffer);

  const SafetensorsShards& shards_;
  const HfConfig& config_;
  const HfTensorOptions& options_;
  ModelSource& source_;
  std::vector<std::pair<std::string, Found>> weights_;  // GGUF's name; in file order
  std::unordered_map<std::string, Found> scales_;       // by stem
  std::unordered_map<std::string, Found> parts_;        // of packed matrices, by stem and kind
  std::map<std::vector<int32_t>, std::string> orders_;  // of columns, to the vector's name
  std::vector<std::pair<std::string, std::string>> same_orders_;  // another name, and that one
};

// Weights and biases to weights_, scales to scales_; refuses what has no place.
Status TensorTaker::Sort(const Found& found) {
  const std::string& name = found.tensor->name;
  if (name.ends_with(kDerived))
    return {};
  auto place = FindPlace(config_, name);
  if (!place)
    return NotSupported(
        found, fmt::format("{} with {} layers has no such tensor", config_.family->architecture,
                           config_.model.layer_count));
  if (place->stem.empty())
    return {};
  if (place->kind == "weight_scale" || place->kind == "weight_scale_inv") {
    scales_[place->stem] = found;
    return {};
  }
  if (options_.compressed && IsCompressedPart(place->kind)) {
    parts_[fmt::format("{}.{}", place->stem, place->kind)] = found;
    if (place->kind == kCompressedValues)
      weights_.emplace_back(fmt::format("{}.weight", place->stem), found);
    return {};
  }
  if (options_.packed && IsPackedPart(place->kind)) {
    parts_[fmt::format("{}.{}", place->stem, place->kind)] = found;
    if (place->kind == kPackedValues)
      weights_.emplace_back(fmt::format("{}.weight", place->stem), found);
    return {};
  }
  // The scale of quantized activations; ours stay wider.
  if (place->kind == "input_scale")
    return {};
  // transformers ties the head to the embedding, whatever the file holds for it.
  if (place->stem == "output" && config_.tied)
    return {};
  // Quantizers write a bias of zeros where the model has none.
  if (options_.packed && place->kind == "bias" && !HasBias(config_, place->stem) &&
      std::ranges::all_of(Bytes(found), [](std::byte byte) { return byte == std::byte{0}; }))
    return {};
  const bool known =
      place->kind == "weight" || (place->kind == "bias" && HasBias(config_, place->stem));
  if (!known)
    return NotSupported(found, "config.json does not say that the model has it");
  weights_.emplace_back(fmt::format("{}.{}", place->stem, place->kind), found);
  return {};
}

void TensorTaker::Put(TensorInfo info) {
  source_.by_name.emplace(info.name, source_.tensors.size());
  source_.tensors.push_back(std::move(info));
}

void TensorTaker::PutBuffer(TensorInfo info, Buffer buffer) {
  info.storage = TensorInfo::Storage::kBuffer;
  info.file = static_cast<uint32_t>(source_.buffers.size());
  info.offset = 0;
  info.bytes = static_cast<uint64_t>(info.rows() * DTypeRowBytes(info.dtype, info.columns()));
  source_.buffers.push_back(std::move(buffer));
  Put(std::move(info));
}

Status TensorTaker::TakeAsF32(const Found& found, TensorInfo info, float addend) {
  info.dtype = DType::kF32;
  const auto count = static_cast<size_t>(info.rows() * info.columns());
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(count * sizeof(float)));
  const std::span<float> values(buffer.As<float>(), count);
  DecodeValues(found.tensor->type, Bytes(found), values);
  for (float& value : values)
    value += addend;
  PutBuffer(std::move(info), std::move(buffer));
  return {};
}

Status TensorTaker::TakeVector(const Found& found, TensorInfo info) {
  const bool norm = info.name.ends_with("norm.weight");
  const float addend = norm && config_.family->norms_from_one ? 1.0F : 0.0F;
  if (found.tensor->type == SafetensorsType::kF32 && addend == 0.0F) {
    Put(std::move(info));
    return {};
  }
  return TakeAsF32(found, std::move(info), addend);
}

Status TensorTaker::TakeFp8(const std::string& stem, const Found& found, TensorInfo info) {
  Fp8Weights weights;
  weights.type = found.tensor->type;
  weights.rows = info.rows();
  weights.columns = info.columns();
  weights.bytes = Bytes(found);
  weights.block_rows = options_.fp8_block_rows;
  weights.block_columns = options_.fp8_block_columns;
  if (const auto scale = scales_.find(stem); scale != scales_.end()) {
    const SafetensorsTensor& tensor = *scale->second.tensor;
    if (!HasFloatValues(tensor.type))
      return NotSupported(scale->second, SafetensorsTypeName(tensor.type));
    weights.scale_shape = tensor.shape;
    weights.scales.resize(tensor.bytes / GetSafetensorsTypeInfo(tensor.type).bytes);
    DecodeValues(tensor.type, Bytes(scale->second), weights.scales);
  }
  auto buffer = Fp8ToBf16(weights);
  if (!buffer.ok())
    return Wrong(found, buffer.error().message);
  info.dtype = DType::kBF16;
  PutBuffer(std::move(info), *std::move(buffer));
  return {};
}

Result<TensorTaker::Found> TensorTaker::PartOf(const std::string& stem,
                                               std::string_view kind) const {
  const auto part = parts_.find(fmt::format("{}.{}", stem, kind));
  if (part == parts_.end())
    return Corrupt("the tensor is missing from the model", fmt::format("{}.{}", stem, kind));
  return part->second;
}

Result<PackedParts> TensorTaker::PartsOf(const std::string& stem, const Found& found) const {
  const PackedFormat& format = *options_.packed;
  const int64_t per_word = 32 / format.bits;
  const std::vector<int64_t>& shape = found.tensor->shape;
  if (found.tensor->type != SafetensorsType::kI32 || shape.size() != 2)
    return NotSupported(found, "a matrix of I32 expected");
  PackedParts parts;
  const bool gptq = format.layout == PackedLayout::kGptq;
  parts.inputs = gptq ? shape[0] * per_word : shape[0];
  parts.outputs = gptq ? shape[1] : shape[1] * per_word;
  parts.qweight = Bytes(found);
  TENON_ASSIGN_OR_RETURN(const Found zeros, PartOf(stem, "qzeros"));
  if (zeros.tensor->type != SafetensorsType::kI32)
    return NotSupported(zeros, "I32 expected");
  parts.qzeros = Bytes(zeros);
  TENON_ASSIGN_OR_RETURN(const Found scales, PartOf(stem, "scales"));
  TENON_ASSIGN_OR_RETURN(parts.scales, Floats(scales));
  const auto groups = parts_.find(stem + ".g_idx");
  if (groups != parts_.end())
    TENON_RETURN_IF_ERROR(ReadGroups(groups->second, parts));
  return parts;
}

Result<std::vector<float>> TensorTaker::Floats(const Found& found) const {
  if (!HasFloatValues(found.tensor->type))
    return NotSupported(found, SafetensorsTypeName(found.tensor->type));
  std::vector<float> values(found.tensor->bytes / GetSafetensorsTypeInfo(found.tensor->type).bytes);
  DecodeValues(found.tensor->type, Bytes(found), values);
  return values;
}

Status TensorTaker::ReadGroups(const Found& found, PackedParts& parts) const {
  if (found.tensor->type != SafetensorsType::kI32)
    return NotSupported(found, "I32 expected");
  parts.groups.resize(found.tensor->bytes / sizeof(int32_t));
  std::memcpy(parts.groups.data(), Bytes(found).data(), parts.groups.size() * sizeof(int32_t));
  return {};
}

// Rows and columns of the matrix that the integers are of.
Result<std::pair<int64_t, int64_t>> TensorTaker::CompressedShape(const std::string& stem,
                                                                 const Found& found) const {
  const std::vector<int64_t>& shape = found.tensor->shape;
  if (shape.size() != 2 || found.tensor->bytes == 0)
    return Wrong(found, "a matrix expected");
  if (found.tensor->type == SafetensorsType::kI8)
    return std::pair(shape[0], shape[1]);
  if (found.tensor->type != SafetensorsType::kI32)
    return NotSupported(found, "I32 expected");
  TENON_ASSIGN_OR_RETURN(const Found part, PartOf(stem, "weight_shape"));
  int64_t size[2] = {};
  if (part.tensor->type != SafetensorsType::kI64 || part.tensor->bytes != sizeof(size))
    return NotSupported(part, "two values of I64 expected");
  std::memcpy(size, Bytes(part).data(), sizeof(size));
  const bool known = size[0] == shape[0] && (size[1] == 8 * shape[1] || size[1] == 4 * shape[1]);
  if (!known)
    return Wrong(found, fmt::format("{} words in a row, a matrix of {} rows and {} columns of 4 "
                                    "or 8 bits expected",
                                    shape[1], size[0], size[1]));
  return std::pair(size[0], size[1]);
}

Status TensorTaker::TakeCompressed(const std::string& stem, const Found& found) {
  TENON_ASSIGN_OR_RETURN(const auto shape, CompressedShape(stem, found));
  const bool bytes = found.tensor->type == SafetensorsType::kI8;
  PackedParts parts;
  parts.outputs = shape.first;
  parts.inputs = shape.second;
  parts.qweight = Bytes(found);
  const auto scale = scales_.find(stem);
  if (scale == scales_.end())
    return Corrupt("the tensor is missing from the model", stem + ".weight_scale");
  TENON_ASSIGN_OR_RETURN(parts.scales, Floats(scale->second));
  PackedFormat format;
  format.layout = bytes ? PackedLayout::kBytes : PackedLayout::kRows;
  format.bits = bytes || parts.inputs == 4 * found.tensor->shape[1] ? 8 : 4;
  // One scale for the matrix is one for each row.
  if (parts.scales.size() == 1)
    parts.scales.assign(static_cast<size_t>(parts.outputs), parts.scales.front());
  const int64_t groups = static_cast<int64_t>(parts.scales.size()) / parts.outputs;
  if (groups < 1 || parts.inputs % groups != 0)
    return Wrong(found, fmt::format("{} scales for {} rows of {} values", parts.scales.size(),
                                    parts.outputs, parts.inputs));
  format.group_size = parts.inputs / groups;
  const auto zeros = parts_.find(stem + ".weight_zero_point");
  format.symmetric = zeros == parts_.end();
  if (zeros != parts_.end()) {
    if (zeros->second.tensor->type != found.tensor->type)
      return NotSupported(zeros->second, "zero points of the weights' type expected");
    parts.qzeros = Bytes(zeros->second);
  }
  const auto order = parts_.find(stem + ".weight_g_idx");
  if (order != parts_.end())
    TENON_RETURN_IF_ERROR(ReadGroups(order->second, parts));
  return PutUnpacked(stem, found, format, parts);
}

Status TensorTaker::TakePacked(const std::string& stem, const Found& found) {
  TENON_ASSIGN_OR_RETURN(const PackedParts parts, PartsOf(stem, found));
  return PutUnpacked(stem, found, *options_.packed, parts);
}

Status TensorTaker::PutUnpacked(const std::string& stem, const Found& found,
                                const PackedFormat& format, const PackedParts& parts) {
  const bool may_sort =
      config_.family->matrices == HfMatrices::kAsTheyAre && MayHaveColumnOrder(stem);
  auto matrix = UnpackMatrix(format, parts, may_sort ? ColumnOrder::kSorted : ColumnOrder::kOfFile);
  if (!matrix.ok())
    return Wrong(found, matrix.error().message);
  if (!matrix->order.empty())
    TENON_RETURN_IF_ERROR(PutOrder(stem, matrix->order));
  TensorInfo info;
  info.name = stem + ".weight";
  info.shape = {parts.outputs, parts.inputs};
  info.dtype = matrix->dtype;
  PutBuffer(std::move(info), std::move(matrix->buffer));
  return {};
}

// Equal orders are one vector: matrices of one input then share its permutation.
Status TensorTaker::PutOrder(const std::string& stem, const std::vector<int32_t>& order) {
  const std::string name = fmt::format("{}{}", stem, kOrderSuffix);
  const auto [known, is_new] = orders_.emplace(order, name);
  if (!is_new) {
    same_orders_.emplace_back(name, known->second);
    return {};
  }
  TensorInfo info;
  info.name = name;
  info.shape = {static_cast<int64_t>(order.size())};
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(order.size() * sizeof(float)));
  std::ranges::transform(order, buffer.As<float>(),
                         [](int32_t column) { return static_cast<float>(column); });
  PutBuffer(std::move(info), std::move(buffer));
  return {};
}

Status TensorTaker::Take(const std::string& name, const Found& found) {
  const SafetensorsTensor& tensor = *found.tensor;
  if (options_.packed && tensor.name.ends_with(kPackedValues))
    return TakePacked(name.substr(0, name.rfind('.')), found);
  if (options_.compressed && (tensor.name.ends_with(kCompressedValues) ||
                              (tensor.type == SafetensorsType::kI8 && name.ends_with(".weight"))))
    return TakeCompressed(name.substr(0, name.rfind('.')), found);
  if (tensor.shape.empty() || tensor.shape.size() > 2 || tensor.bytes == 0) {
    return Wrong(found, fmt::format("the shape [{}] found, a vector or a matrix expected",
                                    fmt::join(tensor.shape, ", ")));
  }
  if (!HasFloatValues(tensor.type) || tensor.type == SafetensorsType::kF8E8M0)
    return NotSupported(found, fmt::format("values of type {}", SafetensorsTypeName(tensor.type)));
  TensorInfo info;
  info.name = name;
  info.shape = tensor.shape;
  info.file = found.file;
  info.offset = tensor.offset;
  info.bytes = tensor.bytes;
  if (tensor.shape.size() == 1)
    return TakeVector(found, std::move(info));
  switch (tensor.type) {
    case SafetensorsType::kF32:
      info.dtype = DType::kF32;
      break;
    case SafetensorsType::kF16:
      info.dtype = DType::kF16;
      break;
    case SafetensorsType::kBF16:
      info.dtype = DType::kBF16;
      break;
    case SafetensorsType::kF64:
      return TakeAsF32(found, std::move(info), 0.0F);
    default:
      return TakeFp8(name.substr(0, name.rfind('.')), found, std::move(info));
  }
  Put(std::move(info));
  return {};
}

Status TensorTaker::TakeAll() {
  for (size_t file = 0; file < shards_.parsed.size(); ++file) {
    for (const SafetensorsTensor& tensor : shards_.parsed[file].tensors)
      TENON_RETURN_IF_ERROR(Sort({&tensor, static_cast<uint32_t>(file)}));
  }
  for (const auto& [name, found] : weights_) {
    if (source_.Find(name) != nullptr)
      return Wrong(found, "it is there twice");
    TENON_RETURN_IF_ERROR(Take(name, found));
  }
  return {};
}

// Every bias that config.json promises is there: the graph would leave a missing one out.
Status CheckBiases(const HfConfig& config, const ModelSource& source) {
  for (const TensorInfo& tensor : source.tensors) {
    const std::string_view stem = std::string_view(tensor.name).substr(0, tensor.name.rfind('.'));
    if (!tensor.name.ends_with(".weight") || !HasBias(config, stem))
      continue;
    const std::string bias = fmt::format("{}.bias", stem);
    if (source.Find(bias) == nullptr)
      return Corrupt("the tensor is missing, but config.json says that the model has it", bias);
  }
  return {};
}

Status TakeApart(const HfConfig& config, ModelSource& source) {
  switch (config.family->matrices) {
    case HfMatrices::kAsTheyAre:
      return {};
    case HfMatrices::kFusedPhi3:
      return SlicePhi3Tensors(config.model, source);
    case HfMatrices::kFusedGpt2:
      TENON_RETURN_IF_ERROR(TransposeLayers(source));
      return SliceQkvTensors(config.model, source);
    case HfMatrices::kFusedHeads:
      TENON_RETURN_IF_ERROR(RegroupHeads(config.model, source));
      return SliceQkvTensors(config.model, source);
  }
  return {};
}

}  // namespace

Status TakeHfTensors(SafetensorsShards shards, const HfConfig& config,
                     const HfTensorOptions& options, ModelSource& source) {
  TensorTaker taker(shards, config, options, source);
  TENON_RETURN_IF_ERROR(taker.TakeAll());
  source.files = std::move(shards.files);
  TENON_RETURN_IF_ERROR(TakeApart(config, source));
  TENON_RETURN_IF_ERROR(StackExperts(config.model, source));
  for (const auto& [name, known] : taker.same_orders())
    source.by_name.emplace(name, source.by_name.at(known));
  TENON_RETURN_IF_ERROR(CheckBiases(config, source));
  if (config.tied || source.Find("output.weight") != nullptr)
    return {};
  return Corrupt("missing, and config.json's tie_word_embeddings is not true", "lm_head.weight");
}

}  // namespace tenon

#include "model/hf/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace tenon {
namespace {

// Sizes below 2^31 make every product of two of them fit 62 bits.
constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();
// Tables of layers are made before the tensors tell how many there are; real models have up to 126.
constexpr int64_t kMostLayers = 10000;

Result<const HfFamily*> ReadFamily(const JsonValue& root) {
  TENON_ASSIGN_OR_RETURN(const JsonValue list, root.At("architectures"));
  TENON_ASSIGN_OR_RETURN(const auto names, list.Array());
  if (names.size() != 1)
    return list.Wrong(fmt::format("{} names, one expected", names.size()));
  const JsonValue first = list.Item(0, names.at(0));
  TENON_ASSIGN_OR_RETURN(const std::string_view name, first.String());
  const HfFamily* family = FindHfFamily(name);
  if (family != nullptr)
    return family;
  return first.NotSupported(
      fmt::format("the architecture '{}'; supported are {}", name, HfFamilyNames()));
}

Status ReadHeads(const JsonValue& root, HfConfig& config) {
  ModelConfig& model = config.model;
  model.kv_head_count = model.head_count;
  // Families without shared keys ignore what a file says about them.
  if (!config.family->all_biases)
    TENON_RETURN_IF_ERROR(ReadSize(root, "num_key_value_heads", model.kv_head_count));
  if (model.head_count % model.kv_head_count != 0) {
    return root.Member("num_key_value_heads", root.element())
        .Wrong(fmt::format("{} found, a divisor of the {} heads expected", model.kv_head_count,
                           model.head_count));
  }
  model.head_dim = model.hidden_size / model.head_count;
  TENON_RETURN_IF_ERROR(ReadSize(root, "head_dim", model.head_dim));
  if (!root.Find("head_dim") && model.hidden_size % model.head_count != 0) {
    return root.Member("head_dim", root.element())
        .Wrong(fmt::format("missing, and {} heads don't divide the width {}", model.head_count,
                           model.hidden_size));
  }
  return ReadHfLatent(root, config);
}

Status ReadSizes(const JsonValue& root, HfConfig& config) {
  ModelConfig& model = config.model;
  const HfSizeKeys& keys = config.family->sizes;
  TENON_RETURN_IF_ERROR(NeedSize(root, "vocab_size", model.vocab_size));
  TENON_RETURN_IF_ERROR(NeedSize(root, keys.hidden, model.hidden_size));
  // GPT-2's may be null.
  model.ffn_size = config.family->name == "gpt2" ? 4 * model.hidden_size : 0;
  TENON_RETURN_IF_ERROR(model.ffn_size > 0 ? ReadSize(root, keys.ffn, model.ffn_size)
                                           : NeedSize(root, keys.ffn, model.ffn_size));
  TENON_RETURN_IF_ERROR(NeedSize(root, keys.layers, model.layer_count));
  if (model.layer_count > kMostLayers) {
    return root.Member(keys.layers, root.element())
        .Wrong(fmt::format("{} found, at most {} expected", model.layer_count, kMostLayers));
  }
  TENON_RETURN_IF_ERROR(NeedSize(root, keys.heads, model.head_count));
  TENON_RETURN_IF_ERROR(NeedSize(root, keys.context, model.context_length));
  return ReadHeads(root, config);
}

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// transformers' names; the first of each is what an error says.
constexpr NamedActivation kActivations[] = {
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu_pytorch_tanh", Activation::kGelu},
    {"gelu_new", Activation::kGelu},
    {"gelu_fast", Activation::kGelu},
    {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf},
    {"relu", Activation::kRelu},
};

const NamedActivation* FindActivation(std::string_view name) {
  const auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const auto& entry) { return entry.name == name; });
  return found == std::end(kActivations) ? nullptr : found;
}

std::string_view NameOf(Activation activation) {
  return std::find_if(std::begin(kActivations), std::end(kActivations),
                      [&](const auto& entry) { return entry.activation == activation; })
      ->name;
}

// Most families' graphs compute one activation only.
Status ReadActivation(const JsonValue& root, HfConfig& config) {
  const HfFamily& family = *config.family;
  const std::string_view expected = NameOf(family.activation);
  const std::string_view key =
      root.Find("hidden_activation") ? "hidden_activation" : family.activation_key;
  TENON_ASSIGN_OR_RETURN(const std::string name, root.StringOr(key, expected));
  const NamedActivation* found = FindActivation(name);
  if (found != nullptr && (family.any_activation || found->activation == family.activation)) {
    config.model.activation = found->activation;
    return {};
  }
  return root.Member(key, root.element())
      .NotSupported(fmt::format("'{}' found, '{}' expected", name, expected));
}

// Weights in a packed format of some quantizer have other tensors than the family's. FP8 only
// changes their type; GPTQ's, AWQ's and compressed-tensors' are known (packed_weights.h).
Status CheckQuantization(const JsonValue& root) {
  const auto quantization = root.Find("quantization_config");
  if (!quantization)
    return {};
  TENON_ASSIGN_OR_RETURN(const std::string method, quantization->StringOr("quant_method", ""));
  if (method == "fp8" || method == "gptq" || method == "awq" || method == "compressed-tensors")
    return {};
  return quantization->Member("quant_method", quantization->element())
      .NotSupported(fmt::format("weights quantized by '{}'", method));
}

Status ReadGemmaScale(const JsonValue& root, ModelConfig& config) {
  float width = 256.0F;  // of both generations, where the file does not say
  TENON_RETURN_IF_ERROR(ReadPositive(root, "query_pre_attn_scalar", width));
  config.attention_scale = 1.0F / std::sqrt(width);
  TENON_RETURN_IF_ERROR(ReadPositive(root, "attn_logit_softcapping", config.attention_softcap));
  return ReadPositive(root, "final_logit_softcapping", config.final_logit_softcap);
}

Status ReadGraniteScales(const JsonValue& root, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(ReadPositive(root, "embedding_multiplier", config.embedding_scale));
  TENON_RETURN_IF_ERROR(ReadPositive(root, "residual_multiplier", config.residual_scale));
  config.attention_scale = 1.0F;
  TENON_RETURN_IF_ERROR(ReadPositive(root, "attention_multiplier", config.attention_scale));
  float divisor = 1.0F;
  TENON_RETURN_IF_ERROR(ReadPositive(root, "logits_scaling", divisor));
  config.logit_scale = 1.0F / divisor;
  return {};
}

// DeepSeek-V3's layers for the tokens after the next one.
Status ReadDraftLayers(const JsonValue& root, std::string_view key, HfConfig& config) {
  if (config.family->name != "deepseek2")
    return {};
  TENON_ASSIGN_OR_RETURN(const int64_t layers, root.IntegerOr(key, config.draft_layers));
  if (layers < 0 || layers > kMostLayers)
    return root.Member(key, root.element()).Wrong(fmt::format("{} found", layers));
  config.draft_layers = layers;
  return {};
}

Status ReadNumbers(const JsonValue& root, HfConfig& config) {
  if (const std::string_view key = config.family->eps_key; !key.empty()) {
    TENON_RETURN_IF_ERROR(root.At(key));
    TENON_RETURN_IF_ERROR(ReadPositive(root, key, config.model.norm_eps));
  }
  const std::string_view name = config.family->name;
  if (name == "gemma2" || name == "gemma3")
    return ReadGemmaScale(root, config.model);
  if (name == "granite")
    return ReadGraniteScales(root, config.model);
  return {};
}

}  // namespace

Status ReadSize(const JsonValue& root, std::string_view key, int64_t& out) {
  const auto field = root.Find(key);
  if (!field)
    return {};
  TENON_ASSIGN_OR_RETURN(out, field->Integer());
  if (out < 1 || out > kLargestSize)
    return field->Wrong(fmt::format("{} found, 1 to 2^31-1 expected", out));
  return {};
}

Status NeedSize(const JsonValue& root, std::string_view key, int64_t& out) {
  TENON_RETURN_IF_ERROR(root.At(key));
  return ReadSize(root, key, out);
}

Status ReadPositive(const JsonValue& object, std::string_view key, float& out) {
  const auto field = object.Find(key);
  if (!field)
    return {};
  TENON_ASSIGN_OR_RETURN(const double number, field->Number());
  if (!(number > 0.0) || number > double{std::numeric_limits<float>::max()} ||
      static_cast<float>(number) <= 0.0F)
    return field->Wrong(fmt::format("{} found, a number above 0 expected", number));
  out = static_cast<float>(number);
  return {};
}

Result<HfConfig> ReadHfConfig(const JsonValue& root) {
  HfConfig config;
  TENON_ASSIGN_OR_RETURN(config.family, ReadFamily(root));
  config.model.architecture = config.family->name;
  TENON_RETURN_IF_ERROR(CheckQuantization(root));
  TENON_RETURN_IF_ERROR(ReadSizes(root, config));
  TENON_RETURN_IF_ERROR(ReadActivation(root, config));
  TENON_RETURN_IF_ERROR(ReadNumbers(root, config));
  TENON_RETURN_IF_ERROR(ReadHfRope(root, config));
  TENON_RETURN_IF_ERROR(ReadHfWindows(root, config));
  TENON_RETURN_IF_ERROR(ReadHfExperts(root, config));
  TENON_RETURN_IF_ERROR(ReadHfPlain(root, config));
  for (const std::string_view key : {"num_nextn_predict_layers", "num_mtp_layers"})
    TENON_RETURN_IF_ERROR(ReadDraftLayers(root, key, config));
  TENON_ASSIGN_OR_RETURN(config.tied,
                         root.BoolOr("tie_word_embeddings", config.family->tied_by_default));
  TENON_ASSIGN_OR_RETURN(config.attention_bias, root.BoolOr("attention_bias", false));
  TENON_ASSIGN_OR_RETURN(config.mlp_bias, root.BoolOr("mlp_bias", false));
  TENON_ASSIGN_OR_RETURN(config.qkv_bias, root.BoolOr("qkv_bias", config.family->qkv_bias));
  return config;
}

}  // namespace tenon

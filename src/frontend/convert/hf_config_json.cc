#include "frontend/convert/hf_config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <span>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// A float as the shortest decimal that means it: 1e-05, not 9.99999974737875e-06.
double Decimal(float value) {
  return std::stod(fmt::format("{}", value));
}

Json IdOrNull(int32_t id) {
  return id >= 0 ? Json(id) : Json();
}

// Of Llama 3.1's and 3.2's rule (transformers' rope_type "llama3"): what its inventors use.
struct Llama3Rule {
  double low = 1.0;
  double high = 4.0;
  double context = 8192.0;
};

double Llama3Factor(const Llama3Rule& rule, double factor, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < rule.context / rule.high)
    return 1.0;
  if (wavelength > rule.context / rule.low)
    return factor;
  const double smooth = (rule.context / wavelength - rule.low) / (rule.high - rule.low);
  return 1.0 / ((1.0 - smooth) / factor + smooth);
}

// The parameters that give a file's frequency factors.
Result<Json> Llama3Scaling(const ModelSource& source, const TensorInfo& tensor) {
  if (tensor.dtype != DType::kF32)
    return Unsupported("frequency factors that are not F32", tensor.name);
  std::vector<float> factors(static_cast<size_t>(tensor.columns()));
  TENON_RETURN_IF_ERROR(source.ReadAt(tensor, 0, std::as_writable_bytes(std::span(factors))));
  const Llama3Rule rule;
  const double factor = *std::ranges::max_element(factors);
  const RopeConfig& rope = source.config.rope;
  for (size_t p = 0; p < factors.size(); ++p) {
    const double power = 2.0 * static_cast<double>(p) / static_cast<double>(rope.rotary_dim);
    const double expected = Llama3Factor(rule, factor, std::pow(rope.base, -power));
    // The converter computed in float.
    if (std::fabs(factors[p] - expected) > 1e-3 * expected)
      return Unsupported("frequency factors of another rule than Llama 3's", tensor.name);
  }
  return Json{{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", rule.low},
              {"high_freq_factor", rule.high},
              {"original_max_position_embeddings", static_cast<int64_t>(rule.context)}};
}

Result<Json> Scaling(const ModelSource& source) {
  const RopeConfig& rope = source.config.rope;
  if (const TensorInfo* factors = source.Find("rope_freqs.weight"))
    return Llama3Scaling(source, *factors);
  switch (rope.scaling) {
    case RopeScaling::kNone:
      return Json();
    case RopeScaling::kLinear:
      return Json{{"rope_type", "linear"}, {"factor", Decimal(rope.factor)}};
    case RopeScaling::kLlama3:
      return Json{{"rope_type", "llama3"},
                  {"factor", Decimal(rope.factor)},
                  {"low_freq_factor", Decimal(rope.low_freq_factor)},
                  {"high_freq_factor", Decimal(rope.high_freq_factor)},
                  {"original_max_position_embeddings", rope.original_context}};
    case RopeScaling::kYarn:
      break;
  }
  Json yarn{{"rope_type", "yarn"},
            {"factor", Decimal(rope.factor)},
            {"original_max_position_embeddings", rope.original_context},
            {"beta_fast", Decimal(rope.beta_fast)},
            {"beta_slow", Decimal(rope.beta_slow)}};
  if (rope.attention_factor > 0.0F)
    yarn["attention_factor"] = Decimal(rope.attention_factor);
  return yarn;
}

class ConfigMaker {
 public:
  ConfigMaker(const ModelSource& source, const HfFamily& family, Json& json)
      : source_(source), config_(source.config), family_(family), json_(json) {}

  Status Fill();

 private:
  bool Has(std::string_view tensor) const { return source_.Find(tensor) != nullptr; }
  void Sizes();
  Status Rope();
  Status Biases();
  void RopeFreeLayers();
  void Windows();
  void Gemma();
  void Experts();
  void Plain();

  const ModelSource& source_;
  const ModelConfig& config_;
  const HfFamily& family_;
  Json& json_;
};

void ConfigMaker::Sizes() {
  const HfSizeKeys& keys = family_.sizes;
  json_["vocab_size"] = config_.vocab_size;
  json_[keys.hidden] = config_.hidden_size;
  json_[keys.ffn] = config_.ffn_size;
  json_[keys.layers] = config_.layer_count;
  json_[keys.heads] = config_.head_count;
  json_[keys.context] = config_.context_length;
  json_[family_.eps_key] = Decimal(config_.norm_eps);
  if (family_.all_biases)
    return;
  json_["num_key_value_heads"] = config_.kv_head_count;
  json_["head_dim"] = config_.head_dim;
}

Status ConfigMaker::Rope() {
  if (family_.rotary_share == 0.0F)
    return {};
  const RopeConfig& rope = config_.rope;
  // GPT-NeoX's own key: transformers does not look for the other one there.
  json_[family_.name == "gptneox" ? "rotary_emb_base" : "rope_theta"] = Decimal(rope.base);
  TENON_ASSIGN_OR_RETURN(json_["rope_scaling"], Scaling(source_));
  if (config_.sliding_rope_base > 0.0F)
    json_["rope_local_base_freq"] = Decimal(config_.sliding_rope_base);
  const double share = static_cast<double>(rope.rotary_dim) / static_cast<double>(config_.head_dim);
  if (family_.name == "gptneox")
    json_["rotary_pct"] = share;
  else if (share != 1.0)
    json_["partial_rotary_factor"] = share;
  if (family_.name == "phi3")
    json_["original_max_position_embeddings"] = config_.context_length;
  return {};
}

// attention_bias speaks of all four projections.
Status ConfigMaker::Biases() {
  if (family_.all_biases || family_.qkv_bias)
    return {};
  const bool biases = Has("blk.0.attn_q.bias");
  if (biases != Has("blk.0.attn_output.bias"))
    return Unsupported(fmt::format("config.json of {} with biases of queries, keys and values only",
                                   family_.architecture));
  json_["attention_bias"] = biases;
  if (family_.name == "llama" || family_.name == "granite" || family_.name == "smollm3")
    json_["mlp_bias"] = Has("blk.0.ffn_up.bias");
  return {};
}

void ConfigMaker::RopeFreeLayers() {
  if (family_.rope_free_every == 0)
    return;
  json_["no_rope_layers"] = Json::array();
  for (int64_t layer = 0; layer < config_.layer_count; ++layer)
    json_["no_rope_layers"].push_back(HasRope(config_, layer) ? 1 : 0);
}

void ConfigMaker::Windows() {
  if (family_.window == HfWindow::kNone)
    return;
  json_["sliding_window"] = config_.sliding_window > 0 ? Json(config_.sliding_window) : Json();
  if (family_.window == HfWindow::kEveryLayer)
    return;
  if (family_.window != HfWindow::kPattern)
    json_["use_sliding_window"] = config_.sliding_window > 0;
  if (family_.window == HfWindow::kEveryLayerIfUsed)
    return;
  Json& types = json_["layer_types"];
  for (int64_t layer = 0; layer < config_.layer_count; ++layer)
    types.push_back(LayerWindow(config_, layer) > 0 ? "sliding_attention" : "full_attention");
}

void ConfigMaker::Gemma() {
  json_["hidden_activation"] = "gelu_pytorch_tanh";
  // scale = scalar ^ -0.5, of a whole number.
  const double scale = config_.attention_scale;
  json_["query_pre_attn_scalar"] = std::llround(1.0 / (scale * scale));
  const auto cap = [](float value) { return value > 0.0F ? Json(Decimal(value)) : Json(); };
  json_["attn_logit_softcapping"] = cap(config_.attention_softcap);
  json_["final_logit_softcapping"] = cap(config_.final_logit_softcap);
}

void ConfigMaker::Experts() {
  const ExpertConfig& experts = config_.experts;
  json_["num_experts_per_tok"] = experts.used;
  if (family_.name == "mixtral") {
    json_["num_local_experts"] = experts.count;
    json_[family_.sizes.ffn] = experts.ffn_size;
    return;
  }
  json_["num_experts"] = experts.count;
  json_["norm_topk_prob"] = experts.normalized;
  if (family_.name == "olmoe") {
    json_[family_.sizes.ffn] = experts.ffn_size;
    return;
  }
  json_["moe_intermediate_size"] = experts.ffn_size;
  if (family_.name == "qwen2moe")
    json_["shared_expert_intermediate_size"] = experts.shared_ffn_size;
  json_["decoder_sparse_step"] = 1;
  Json& dense = json_["mlp_only_layers"] = Json::array();
  for (int64_t layer = 0; layer < config_.layer_count; ++layer) {
    if (!HasExperts(config_, layer))
      dense.push_back(layer);
  }
}

void ConfigMaker::Plain() {
  json_[family_.activation_key] = config_.activation == Activation::kGelu ? "gelu_new" : "gelu";
  if (family_.name == "gptneox")
    json_["use_parallel_residual"] = config_.parallel_residual;
}

Status ConfigMaker::Fill() {
  Sizes();
  TENON_RETURN_IF_ERROR(Rope());
  TENON_RETURN_IF_ERROR(Biases());
  RopeFreeLayers();
  Windows();
  if (family_.norms_from_one)
    Gemma();
  else if (family_.all_biases)
    Plain();
  else
    json_["hidden_act"] = "silu";
  if (config_.experts.count > 0)
    Experts();
  if (family_.name == "granite") {
    json_["embedding_multiplier"] = Decimal(config_.embedding_scale);
    json_["residual_multiplier"] = Decimal(config_.residual_scale);
    json_["attention_multiplier"] = Decimal(config_.attention_scale);
    json_["logits_scaling"] = Decimal(1.0F / config_.logit_scale);
  }
  json_["tie_word_embeddings"] = !Has("output.weight");
  return {};
}

}  // namespace

Result<Json> MakeHfConfig(const ModelSource& source, const HfFamily& family) {
  if (family.model_type.empty())
    return Unsupported(
        fmt::format("config.json of {} from a model that has none", family.architecture));
  Json json;
  json["architectures"] = Json::array({family.architecture});
  json["model_type"] = family.model_type;
  TENON_RETURN_IF_ERROR(ConfigMaker(source, family, json).Fill());
  json["bos_token_id"] = IdOrNull(source.tokenizer.bos_id);
  json["eos_token_id"] = IdOrNull(source.tokenizer.eos_id);
  json["pad_token_id"] = IdOrNull(source.tokenizer.padding_id);
  json["use_cache"] = true;
  return json;
}

Json MakeGenerationConfig(const TokenizerSpec& spec) {
  std::set<int32_t> ends(spec.stop_ids.begin(), spec.stop_ids.end());
  ends.insert({spec.eos_id, spec.eot_id});
  ends.erase(-1);
  Json json;
  json["bos_token_id"] = IdOrNull(spec.bos_id);
  json["eos_token_id"] = ends;
  json["pad_token_id"] = IdOrNull(spec.padding_id);
  return json;
}

}  // namespace tenon

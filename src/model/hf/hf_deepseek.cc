// ReadHfLatent and ReadHfDeepseekExperts (hf_config.h).
#include <fmt/format.h>

#include <cmath>

#include "model/hf/hf_config.h"

namespace tenon {
namespace {

bool IsV3(const HfConfig& config) {
  return config.family->architecture == "DeepseekV3ForCausalLM";
}

// V2 takes the groups with the best expert, V3 those with the best two; V2's files may have groups
// and a method that does not use them.
Status ReadGroups(const JsonValue& root, const HfConfig& config, ExpertConfig& experts) {
  TENON_ASSIGN_OR_RETURN(const std::string method, root.StringOr("topk_method", "greedy"));
  if (!IsV3(config) && method == "greedy")
    return {};
  if (!IsV3(config) && method != "group_limited_greedy") {
    return root.Member("topk_method", root.element())
        .NotSupported(fmt::format("'{}'; known are greedy and group_limited_greedy", method));
  }
  TENON_RETURN_IF_ERROR(NeedSize(root, "n_group", experts.groups));
  TENON_RETURN_IF_ERROR(NeedSize(root, "topk_group", experts.used_groups));
  experts.group_best = IsV3(config) ? 2 : 1;
  const bool fits = experts.count % experts.groups == 0 && experts.used_groups <= experts.groups &&
                    experts.group_best <= experts.count / experts.groups &&
                    experts.used <= experts.used_groups * (experts.count / experts.groups);
  if (fits)
    return {};
  return root.Member("n_group", root.element())
      .Wrong(fmt::format("{} groups of which {} are used don't fit {} experts of which {} are",
                         experts.groups, experts.used_groups, experts.count, experts.used));
}

// The factor that extending the context puts on scores (transformers' yarn_apply_mscale).
Status ReadScoreScale(const JsonValue& root, ModelConfig& model) {
  auto parameters = root.Find("rope_parameters");
  if (!parameters)
    parameters = root.Find("rope_scaling");
  const double plain = 1.0 / std::sqrt(static_cast<double>(model.head_dim));
  model.attention_scale = static_cast<float>(plain);
  if (!parameters)
    return {};
  TENON_ASSIGN_OR_RETURN(const std::string old_name, parameters->StringOr("type", "default"));
  TENON_ASSIGN_OR_RETURN(const std::string type, parameters->StringOr("rope_type", old_name));
  TENON_ASSIGN_OR_RETURN(const double all_dim, parameters->NumberOr("mscale_all_dim", 0.0));
  float factor = 1.0F;
  TENON_RETURN_IF_ERROR(ReadPositive(*parameters, "factor", factor));
  if (type == "default" || all_dim == 0.0 || factor <= 1.0F)
    return {};
  const double magnitude = 0.1 * all_dim * std::log(static_cast<double>(factor)) + 1.0;
  model.attention_scale = static_cast<float>(plain * magnitude * magnitude);
  return {};
}

}  // namespace

Status ReadHfLatent(const JsonValue& root, HfConfig& config) {
  if (config.family->name != "deepseek2")
    return {};
  ModelConfig& model = config.model;
  LatentConfig& latent = model.latent;
  TENON_RETURN_IF_ERROR(ReadSize(root, "q_lora_rank", latent.query_rank));
  TENON_RETURN_IF_ERROR(NeedSize(root, "kv_lora_rank", latent.kv_rank));
  TENON_RETURN_IF_ERROR(NeedSize(root, "qk_nope_head_dim", latent.plain_dim));
  TENON_RETURN_IF_ERROR(NeedSize(root, "qk_rope_head_dim", latent.rotary_dim));
  TENON_RETURN_IF_ERROR(NeedSize(root, "v_head_dim", latent.value_dim));
  model.head_dim = latent.plain_dim + latent.rotary_dim;
  model.kv_head_count = model.head_count;
  if (latent.value_dim > model.head_dim) {
    return root.Member("v_head_dim", root.element())
        .NotSupported(fmt::format("{} found, at most the keys' {} expected", latent.value_dim,
                                  model.head_dim));
  }
  return ReadScoreScale(root, model);
}

Status ReadHfDeepseekExperts(const JsonValue& root, HfConfig& config) {
  ModelConfig& model = config.model;
  ExpertConfig& experts = model.experts;
  TENON_RETURN_IF_ERROR(NeedSize(root, "moe_intermediate_size", experts.ffn_size));
  int64_t shared = 0;
  TENON_RETURN_IF_ERROR(ReadSize(root, "n_shared_experts", shared));
  experts.shared_ffn_size = shared * experts.ffn_size;
  TENON_RETURN_IF_ERROR(ReadPositive(root, "routed_scaling_factor", experts.scale));
  TENON_ASSIGN_OR_RETURN(experts.normalized, root.BoolOr("norm_topk_prob", IsV3(config)));
  experts.sigmoid = IsV3(config);
  if (!IsV3(config) && experts.normalized) {
    return root.Member("norm_topk_prob", root.element()).NotSupported("true found, false expected");
  }
  TENON_ASSIGN_OR_RETURN(const int64_t dense, root.IntegerOr("first_k_dense_replace", 0));
  if (dense < 0 || dense > model.layer_count) {
    return root.Member("first_k_dense_replace", root.element())
        .Wrong(fmt::format("{} found, at most the {} layers expected", dense, model.layer_count));
  }
  for (int64_t layer = 0; layer < model.layer_count; ++layer)
    experts.dense_layers.push_back(layer < dense);
  return ReadGroups(root, config, experts);
}

}  // namespace tenon

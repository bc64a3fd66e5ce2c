// ReadHfExperts (hf_config.h).
#include <fmt/format.h>

#include <array>

#include "model/hf/hf_config.h"

namespace tenon {
namespace {

// Names that families and versions of transformers have for the number of experts of a layer.
constexpr std::array<std::string_view, 3> kCountKeys = {"num_experts", "num_local_experts",
                                                        "n_routed_experts"};
// A stack's tensors are made one by one; real models have up to 512.
constexpr int64_t kMostExperts = 65536;

Status ReadCount(const JsonValue& root, ExpertConfig& experts) {
  for (const std::string_view key : kCountKeys) {
    TENON_RETURN_IF_ERROR(ReadSize(root, key, experts.count));
    if (experts.count > kMostExperts) {
      return root.Member(key, root.element())
          .Wrong(fmt::format("{} found, at most {} expected", experts.count, kMostExperts));
    }
    if (experts.count > 0)
      return {};
  }
  return root.Wrong("num_experts is missing");
}

Status ReadUsed(const JsonValue& root, ExpertConfig& experts) {
  TENON_RETURN_IF_ERROR(NeedSize(root, "num_experts_per_tok", experts.used));
  if (experts.used <= experts.count)
    return {};
  return root.Member("num_experts_per_tok", root.element())
      .Wrong(fmt::format("{} found, at most the {} experts expected", experts.used, experts.count));
}

// Qwen: every decoder_sparse_step-th layer has experts, but those of mlp_only_layers.
Status ReadDenseLayers(const JsonValue& root, ModelConfig& model) {
  TENON_ASSIGN_OR_RETURN(const int64_t step, root.IntegerOr("decoder_sparse_step", 1));
  if (step < 1)
    return root.Member("decoder_sparse_step", root.element()).Wrong("1 or more expected");
  std::vector<bool>& dense = model.experts.dense_layers;
  for (int64_t layer = 0; layer < model.layer_count; ++layer)
    dense.push_back((layer + 1) % step != 0);
  const auto list = root.Find("mlp_only_layers");
  if (!list)
    return {};
  TENON_ASSIGN_OR_RETURN(const auto layers, list->Array());
  size_t index = 0;
  for (const simdjson::dom::element item : layers) {
    const JsonValue entry = list->Item(index++, item);
    TENON_ASSIGN_OR_RETURN(const int64_t layer, entry.Integer());
    if (layer < 0 || layer >= model.layer_count)
      return entry.Wrong(fmt::format("{} found, a layer expected", layer));
    dense[static_cast<size_t>(layer)] = true;
  }
  return {};
}

Status ReadQwen(const JsonValue& root, HfConfig& config) {
  ExpertConfig& experts = config.model.experts;
  TENON_RETURN_IF_ERROR(NeedSize(root, "moe_intermediate_size", experts.ffn_size));
  if (config.family->name == "qwen2moe")
    TENON_RETURN_IF_ERROR(
        NeedSize(root, "shared_expert_intermediate_size", experts.shared_ffn_size));
  TENON_ASSIGN_OR_RETURN(experts.normalized, root.BoolOr("norm_topk_prob", false));
  return ReadDenseLayers(root, config.model);
}

Status ReadOlmoe(const JsonValue& root, ExpertConfig& experts) {
  TENON_ASSIGN_OR_RETURN(experts.normalized, root.BoolOr("norm_topk_prob", false));
  if (const auto clip = root.Find("clip_qkv"))
    return clip->NotSupported("queries, keys and values that are clipped");
  return {};
}

}  // namespace

Status ReadHfExperts(const JsonValue& root, HfConfig& config) {
  if (config.family->expert_names.empty())
    return {};
  ExpertConfig& experts = config.model.experts;
  TENON_RETURN_IF_ERROR(ReadCount(root, experts));
  TENON_RETURN_IF_ERROR(ReadUsed(root, experts));
  experts.ffn_size = config.model.ffn_size;
  const std::string_view name = config.family->name;
  if (name == "mixtral") {
    experts.normalized = true;
    return {};
  }
  if (name == "deepseek2")
    return ReadHfDeepseekExperts(root, config);
  return name == "olmoe" ? ReadOlmoe(root, experts) : ReadQwen(root, config);
}

}  // namespace tenon

// ReadHfPlain (hf_config.h): GPT-2, GPT-NeoX, OPT and BERT.
#include <fmt/format.h>

#include "model/hf/hf_config.h"

namespace tenon {
namespace {

// A switch that the graph has no other position of.
Status NeedBool(const JsonValue& root, std::string_view key, bool value) {
  TENON_ASSIGN_OR_RETURN(const bool found, root.BoolOr(key, value));
  if (found == value)
    return {};
  return root.Member(key, root.element())
      .NotSupported(fmt::format("{} found, {} expected", found, value));
}

Status CheckGpt2(const JsonValue& root) {
  TENON_RETURN_IF_ERROR(NeedBool(root, "scale_attn_weights", true));
  TENON_RETURN_IF_ERROR(NeedBool(root, "scale_attn_by_inverse_layer_idx", false));
  return NeedBool(root, "add_cross_attention", false);
}

Status CheckOpt(const JsonValue& root, const ModelConfig& model) {
  TENON_RETURN_IF_ERROR(NeedBool(root, "do_layer_norm_before", true));
  TENON_RETURN_IF_ERROR(NeedBool(root, "_remove_final_layer_norm", false));
  TENON_RETURN_IF_ERROR(NeedBool(root, "enable_bias", true));
  TENON_RETURN_IF_ERROR(NeedBool(root, "layer_norm_elementwise_affine", true));
  int64_t embedding = model.hidden_size;
  TENON_RETURN_IF_ERROR(ReadSize(root, "word_embed_proj_dim", embedding));
  if (embedding == model.hidden_size)
    return {};
  return root.Member("word_embed_proj_dim", root.element())
      .NotSupported(fmt::format("{} found, the width {} expected", embedding, model.hidden_size));
}

Status CheckBert(const JsonValue& root) {
  TENON_RETURN_IF_ERROR(NeedBool(root, "is_decoder", false));
  TENON_ASSIGN_OR_RETURN(const std::string positions,
                         root.StringOr("position_embedding_type", "absolute"));
  if (positions == "absolute")
    return {};
  return root.Member("position_embedding_type", root.element())
      .NotSupported(fmt::format("'{}' found, 'absolute' expected", positions));
}

}  // namespace

Status ReadHfPlain(const JsonValue& root, HfConfig& config) {
  const std::string_view name = config.family->name;
  if (name == "gpt2")
    return CheckGpt2(root);
  if (name == "opt")
    return CheckOpt(root, config.model);
  if (name == "gptneox") {
    TENON_RETURN_IF_ERROR(NeedBool(root, "attention_bias", true));
    TENON_ASSIGN_OR_RETURN(config.model.parallel_residual,
                           root.BoolOr("use_parallel_residual", true));
    return {};
  }
  if (name != "bert")
    return {};
  config.model.pooling = Pooling::kMean;
  return CheckBert(root);
}

}  // namespace tenon

// ReadGgufExperts (gguf_fields.h).
#include <fmt/format.h>

#include "model/gguf/gguf_fields.h"

namespace tenon {
namespace {

Status CheckUsed(const GgufFields& fields, const ExpertConfig& experts) {
  if (experts.used >= 1 && experts.used <= experts.count)
    return {};
  return fields.Wrong("expert_used_count", fmt::format("{} found, 1 to the {} experts expected",
                                                       experts.used, experts.count));
}

// Files of Qwen from before the key have the width of all experts that a token uses.
Status ReadWidths(const GgufFields& fields, ModelConfig& config) {
  ExpertConfig& experts = config.experts;
  experts.ffn_size =
      config.architecture == "qwen2moe" ? config.ffn_size / experts.used : config.ffn_size;
  TENON_RETURN_IF_ERROR(fields.Optional("expert_feed_forward_length", experts.ffn_size));
  if (config.architecture != "qwen2moe")
    return {};
  experts.shared_ffn_size = config.ffn_size;
  return fields.Optional("expert_shared_feed_forward_length", experts.shared_ffn_size);
}

}  // namespace

Status ReadGgufExperts(const GgufFields& fields, ModelConfig& config) {
  ExpertConfig& experts = config.experts;
  // Mixtral's files are called llama.
  const bool may = config.architecture == "llama" || config.architecture == "qwen2moe" ||
                   config.architecture == "qwen3moe" || config.architecture == "olmoe";
  if (!may)
    return {};
  TENON_RETURN_IF_ERROR(fields.Optional("expert_count", experts.count));
  if (experts.count == 0) {
    return config.architecture == "llama" ? Status() : fields.Wrong("expert_count", "missing or 0");
  }
  if (config.architecture == "llama")
    config.architecture = "mixtral";
  TENON_RETURN_IF_ERROR(fields.Mandatory("expert_used_count", experts.used));
  TENON_RETURN_IF_ERROR(CheckUsed(fields, experts));
  experts.normalized = config.architecture == "mixtral" || config.architecture == "qwen3moe";
  return ReadWidths(fields, config);
}

}  // namespace tenon

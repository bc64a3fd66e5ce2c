// ReadGgufRope (gguf_fields.h).
#include <fmt/format.h>

#include <cmath>

#include "model/gguf/gguf_fields.h"

namespace tenon {
namespace {

Status ReadDimensions(const GgufFields& fields, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  TENON_RETURN_IF_ERROR(fields.Optional("rope.freq_base", rope.base));
  rope.rotary_dim = config.head_dim;
  TENON_RETURN_IF_ERROR(fields.Optional("rope.dimension_count", rope.rotary_dim));
  if (rope.rotary_dim % 2 == 0 && rope.rotary_dim <= config.head_dim)
    return {};
  return fields.Wrong("rope.dimension_count",
                      fmt::format("{} found, an even number up to the head's {} expected",
                                  rope.rotary_dim, config.head_dim));
}

// GGUF's attention factor multiplies YaRN's own magnitude 1 + 0.1 ln(factor).
Status ReadYarn(const GgufFields& fields, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.original_context = config.context_length;
  TENON_RETURN_IF_ERROR(
      fields.Optional("rope.scaling.original_context_length", rope.original_context));
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.yarn_ext_factor", rope.ext_factor));
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.yarn_beta_fast", rope.beta_fast));
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.yarn_beta_slow", rope.beta_slow));
  float multiplier = 1.0F;
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.attn_factor", multiplier));
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.yarn_attn_factor", multiplier));
  if (multiplier != 1.0F)
    rope.attention_factor = multiplier * (1.0F + 0.1F * std::log(rope.factor));
  return {};
}

}  // namespace

Status ReadGgufRope(const GgufFields& fields, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(ReadDimensions(fields, config));
  RopeConfig& rope = config.rope;
  // Old files have only this key, and a factor without a type is a linear one.
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scale_linear", rope.factor));
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.factor", rope.factor));
  TENON_ASSIGN_OR_RETURN(const std::string type, fields.Text("rope.scaling.type", "linear"));
  if (type == "none") {
    rope.factor = 1.0F;
    return {};
  }
  if (type == "linear") {
    rope.scaling = rope.factor == 1.0F ? RopeScaling::kNone : RopeScaling::kLinear;
    return {};
  }
  if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    return ReadYarn(fields, config);
  }
  Error error = fields.Wrong("rope.scaling.type",
                             fmt::format("'{}' found, none, linear or yarn expected", type));
  error.code = ErrorCode::kUnsupported;
  return error;
}

}  // namespace tenon

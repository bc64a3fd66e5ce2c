// attention: of each token over its sequence's KV cache up to itself, or over all of it (arXiv
// 1706.03762), grouped queries (arXiv 2305.13245), optional window, score cap and fused rotation.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr size_t kPositionsInput = 3;
// One score: scale, subtract the maximum, exp, add to the sum; its cap as in softcap.cc.
constexpr double kScoreFlops = 4;
constexpr double kCapFlops = 3;

Status CheckCounts(const ShapeRules& rules, const AttentionAttrs& attrs) {
  // Above this, heads * head_dim could overflow; no model comes near.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (attrs.head_dim < 1 || attrs.head_dim > kMost)
    return rules.AttrError("head_dim", attrs.head_dim, fmt::format("1 to {}", kMost));
  if (attrs.heads < 1 || attrs.heads > kMost)
    return rules.AttrError("heads", attrs.heads, fmt::format("1 to {}", kMost));
  if (attrs.kv_heads < 1 || attrs.heads % attrs.kv_heads != 0)
    return rules.AttrError("kv_heads", attrs.kv_heads,
                           fmt::format("a divisor of heads {}", attrs.heads));
  if (attrs.layer < 0)
    return rules.AttrError("layer", attrs.layer, "at least 0");
  if (attrs.window < 0)
    return rules.AttrError("window", attrs.window, "at least 0");
  if (!attrs.causal && attrs.window > 0)
    return rules.AttrError("window", attrs.window, "0 where attention is not causal");
  return {};
}

Status CheckFactors(const ShapeRules& rules, const AttentionAttrs& attrs) {
  if (!std::isfinite(attrs.scale))
    return rules.AttrError("scale", attrs.scale, "a finite number");
  if (!std::isfinite(attrs.softcap) || attrs.softcap < 0.0F)
    return rules.AttrError("softcap", attrs.softcap, "a number of at least 0");
  return attrs.fused_rope ? CheckRope(rules, attrs.rope, attrs.head_dim) : Status();
}

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<AttentionAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(4, attrs.fused_rope ? 5 : 4));
  TENON_RETURN_IF_ERROR(CheckCounts(rules, attrs));
  TENON_RETURN_IF_ERROR(CheckFactors(rules, attrs));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const Dim rows = rules.rows(0);
  const Dim columns{Symbol::kNone, attrs.heads * attrs.head_dim};
  const Dim kv_columns{Symbol::kNone, attrs.kv_heads * attrs.head_dim};
  const ValueType type{DType::kF32, {rows, columns}};
  TENON_RETURN_IF_ERROR(rules.ExactType(0, type));
  TENON_RETURN_IF_ERROR(rules.ExactType(1, {DType::kF32, {rows, kv_columns}}));
  TENON_RETURN_IF_ERROR(rules.ExactType(2, {DType::kF32, {rows, kv_columns}}));
  TENON_RETURN_IF_ERROR(CheckPositions(rules, kPositionsInput, attrs.rope));
  return std::vector<ValueType>{type};
}

// Keys and values of a sequence are read once, and each token's are written once.
Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  const auto& attrs = std::get<AttentionAttrs>(op.attrs);
  const double tokens = DimSize(graph.value(op.inputs[0]).shape[0], point);
  const double heads = static_cast<double>(attrs.heads);
  const double kv_heads = static_cast<double>(attrs.kv_heads);
  const double head_dim = static_cast<double>(attrs.head_dim);
  const double keys = static_cast<double>(
      attrs.window == 0 ? point.context : std::min(attrs.window, point.context));
  // A product with the key and one with the value: 2 FLOPs for each of head_dim.
  const double score = 4 * head_dim + kScoreFlops + (attrs.softcap > 0.0F ? kCapFlops : 0);
  Cost cost = MovedBytes(graph, op, point);
  cost.flops = tokens * heads * keys * score;
  if (attrs.fused_rope)
    cost.flops += RopeFlops(tokens * (heads + kv_heads), attrs.rope);
  cost.kv_bytes = (static_cast<double>(point.sequences) * keys + tokens) * 2 * kv_heads * head_dim *
                  static_cast<double>(point.kv_value_bytes);
  return cost;
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<AttentionAttrs>(any);
  std::vector<AttrField> fields = {
      {"layer", &attrs.layer},
      {"heads", &attrs.heads},
      {"kv_heads", &attrs.kv_heads},
      {"head_dim", &attrs.head_dim},
      {"scale", &attrs.scale},
      {"softcap", &attrs.softcap, FieldShown::kWhenChanged},
      {"window", &attrs.window, FieldShown::kWhenChanged},
      {"causal", &attrs.causal, FieldShown::kWhenChanged},
      {"fused_rope", &attrs.fused_rope, FieldShown::kWhenChanged},
  };
  AppendRopeFields(attrs.rope, fields);
  return fields;
}

// Work is split by KV heads, so what one of them makes must be whole groups of quantized values.
bool MayQuantizeOutput(const Op& op) {
  const auto& attrs = std::get<AttentionAttrs>(op.attrs);
  const int64_t group = GetDTypeInfo(DType::kActI8).block_elements;
  return attrs.heads / attrs.kv_heads * attrs.head_dim % group == 0;
}

}  // namespace

constinit const OpSchema kAttentionSchema = {
    .name = "attention",
    .effect = OpEffect::kWritesKv,
    .make = [] { return OpAttrs(AttentionAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
    .may_quantize_output = MayQuantizeOutput,
};

}  // namespace tenon

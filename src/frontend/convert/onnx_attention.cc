// Rotary embedding and attention of exported graphs.
#include <fmt/format.h>

#include "engine/exec/rotary_tables.h"
#include "frontend/convert/onnx_graph.h"

namespace tenon {
namespace {

// Masked scores: far below any score, and finite so that sums of two masks stay finite.
constexpr float kMasked = -1e30F;

OnnxAttributes Permutation(std::vector<int64_t> order) {
  return {{"perm", std::move(order)}};
}

OnnxAttributes CastTo(ElementType type) {
  return {{"to", static_cast<int64_t>(type)}};
}

}  // namespace

std::pair<std::string, std::string> OnnxGraphWriter::RotaryTables(const RopeParams& rope) {
  for (const auto& [known, names] : tables_) {
    if (known == rope)
      return names;
  }
  const std::vector<float> frequencies = RotaryFrequencies(rope, frequency_factors_);
  const float magnitude = RotaryMagnitude(rope);
  const std::string positions = builder_.Node(
      "Unsqueeze", {builder_.Node("Cast", {"position_ids"}, CastTo(ElementType::kF32)),
                    builder_.Integers({2, 3})});
  const std::string angles = builder_.Node("Mul", {positions, builder_.Numbers(frequencies)});
  std::pair<std::string, std::string> names = {Mul(builder_.Node("Cos", {angles}), magnitude),
                                               Mul(builder_.Node("Sin", {angles}), magnitude)};
  tables_.emplace_back(rope, names);
  return names;
}

// (a, b) -> (a cos - b sin, a sin + b cos) of halves, or of neighbours (interleaved).
Status OnnxGraphWriter::Rope(const Op& op, const RopeAttrs& attrs) {
  const RopeParams& rope = attrs.rope;
  const auto [cos, sin] = RotaryTables(rope);
  const std::string heads =
      builder_.Node("Reshape", {In(op, 0), builder_.Integers({0, 0, -1, attrs.head_dim})});
  const int64_t half = rope.rotary_dim / 2;
  std::string turned = heads;
  std::string rest;
  if (rope.rotary_dim < attrs.head_dim) {
    const auto parts = builder_.NodeOf(
        "Split", {heads, builder_.Integers({rope.rotary_dim, attrs.head_dim - rope.rotary_dim})},
        {{"axis", int64_t{-1}}}, 2);
    turned = parts[0];
    rest = parts[1];
  }
  std::string a;
  std::string b;
  if (rope.interleaved) {
    const std::string pairs =
        builder_.Node("Reshape", {turned, builder_.Integers({0, 0, 0, half, 2})});
    a = builder_.Node("Gather", {pairs, builder_.Integer(0)}, {{"axis", int64_t{-1}}});
    b = builder_.Node("Gather", {pairs, builder_.Integer(1)}, {{"axis", int64_t{-1}}});
  } else {
    const auto parts = builder_.NodeOf("Split", {turned, builder_.Integers({half, half})},
                                       {{"axis", int64_t{-1}}}, 2);
    a = parts[0];
    b = parts[1];
  }
  const std::string first =
      builder_.Node("Sub", {builder_.Node("Mul", {a, cos}), builder_.Node("Mul", {b, sin})});
  const std::string second =
      builder_.Node("Add", {builder_.Node("Mul", {a, sin}), builder_.Node("Mul", {b, cos})});
  std::string joined;
  if (rope.interleaved) {
    const std::string axis = builder_.Integers({-1});
    const std::string pairs = builder_.Node(
        "Concat",
        {builder_.Node("Unsqueeze", {first, axis}), builder_.Node("Unsqueeze", {second, axis})},
        {{"axis", int64_t{-1}}});
    joined = builder_.Node("Reshape", {pairs, builder_.Integers({0, 0, 0, rope.rotary_dim})});
  } else {
    joined = builder_.Node("Concat", {first, second}, {{"axis", int64_t{-1}}});
  }
  if (!rest.empty())
    joined = builder_.Node("Concat", {joined, rest}, {{"axis", int64_t{-1}}});
  Out(op, builder_.Node("Reshape", {joined, builder_.Integers({0, 0, -1})}));
  return {};
}

// Query i of this call is position past + i; it sees keys up to its own, `window` of them.
std::string OnnxGraphWriter::Mask(int64_t window) {
  if (const auto found = masks_.find(window); found != masks_.end())
    return found->second;
  const std::string total = Extent("attention_mask", 1);
  const std::string past = builder_.Node("Sub", {total, Extent("input_ids", 1)});
  const std::string one = builder_.Integer(1);
  const std::string keys = builder_.Node("Range", {builder_.Integer(0), total, one});
  const std::string queries = builder_.Node(
      "Unsqueeze", {builder_.Node("Range", {past, total, one}), builder_.Integers({1})});
  std::string seen = builder_.Node("LessOrEqual", {keys, queries});
  if (window > 0) {
    const std::string oldest = builder_.Node("Sub", {queries, builder_.Integer(window)});
    seen = builder_.Node("And", {seen, builder_.Node("Greater", {keys, oldest})});
  }
  const std::string real = builder_.Node(
      "Unsqueeze", {builder_.Node("Cast", {"attention_mask"}, CastTo(ElementType::kBool)),
                    builder_.Integers({1, 2, 3})});
  const std::string both = builder_.Node("And", {real, seen});
  return masks_[window] =
             builder_.Node("Where", {both, builder_.Number(0.0F), builder_.Number(kMasked)});
}

// Past rows and these, [batch, kv_heads, total, head_dim]; declared as input and output.
std::string OnnxGraphWriter::Present(std::string_view what, int64_t layer, const std::string& rows,
                                     const AttentionAttrs& attrs) {
  const std::string past = fmt::format("past_key_values.{}.{}", layer, what);
  const std::string present = fmt::format("present.{}.{}", layer, what);
  const std::string heads =
      builder_.Node("Reshape", {rows, builder_.Integers({0, 0, attrs.kv_heads, attrs.head_dim})});
  const std::string moved = builder_.Node("Transpose", {heads}, Permutation({0, 2, 1, 3}));
  builder_.Input(past, ElementType::kF32, {"batch", attrs.kv_heads, "past", attrs.head_dim});
  builder_.Output(present, ElementType::kF32, {"batch", attrs.kv_heads, "total", attrs.head_dim});
  return builder_.Node("Concat", {past, moved}, {{"axis", int64_t{2}}}, present);
}

// Query heads that share a key head are a dimension of their own: [batch, kv_heads, group, rows,
// ..].
Status OnnxGraphWriter::Attention(const Op& op, const AttentionAttrs& attrs) {
  if (attrs.fused_rope)
    return Unsupported("a fused rotation", op.name);
  const int64_t group = attrs.heads / attrs.kv_heads;
  const std::string keys = Present("key", attrs.layer, In(op, 1), attrs);
  const std::string values = Present("value", attrs.layer, In(op, 2), attrs);
  const std::string axis = builder_.Integers({2});
  const std::string split = builder_.Node(
      "Reshape", {In(op, 0), builder_.Integers({0, 0, attrs.kv_heads, group, attrs.head_dim})});
  const std::string q = builder_.Node("Transpose", {split}, Permutation({0, 2, 3, 1, 4}));
  const std::string k = builder_.Node(
      "Unsqueeze", {builder_.Node("Transpose", {keys}, Permutation({0, 1, 3, 2})), axis});
  const std::string v = builder_.Node("Unsqueeze", {values, axis});
  std::string scores = Mul(builder_.Node("MatMul", {q, k}), attrs.scale);
  scores = builder_.Node("Add", {Softcap(scores, attrs.softcap), Mask(attrs.window)});
  const std::string shares = builder_.Node("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const std::string mixed = builder_.Node("MatMul", {shares, v});
  const std::string rows = builder_.Node("Transpose", {mixed}, Permutation({0, 3, 1, 2, 4}));
  Out(op,
      builder_.Node("Reshape", {rows, builder_.Integers({0, 0, attrs.heads * attrs.head_dim})}));
  return {};
}

}  // namespace tenon

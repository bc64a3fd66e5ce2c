#include "model/onnx/decoder_parts.h"

#include <fmt/format.h>

#include <utility>

namespace tenon {
namespace {

constexpr std::string_view kNorm = "SimplifiedLayerNormalization";
constexpr std::string_view kSkipNorm = "SkipSimplifiedLayerNormalization";
constexpr std::string_view kAttention = "GroupQueryAttention";

Error NotRecognised(const OnnxNode* node, std::string_view value, std::string_view expected) {
  const std::string found = node == nullptr
                                ? fmt::format("the value '{}'", value)
                                : fmt::format("the node '{}' ({})", node->name, node->op);
  return Unsupported(
      fmt::format("no decoder that is known: {} stands where {} is expected", found, expected));
}

class Recogniser {
 public:
  Recogniser(const OnnxGraph& graph, const NodeIndex& index) : graph_(graph), index_(index) {}

  Result<DecoderParts> Run(std::string_view input_ids, std::string_view logits);

 private:
  // The linear layer that makes `value`.
  Result<LinearRef> Linear(std::string_view value) const;
  // The norm that makes `value`, whose weights are `weights` afterwards.
  Result<const OnnxNode*> Norm(std::string_view value, std::string_view& weights);
  Status Query(std::string_view value, LinearRef& linear, std::string_view& head_norm);
  Status Rotary(const OnnxNode& node, size_t cos_input);
  Status Attention(const OnnxNode& node, DecoderLayerParts& layer);
  Status FeedForward(const OnnxNode& down_user, DecoderLayerParts& layer);
  Result<const OnnxNode*> SkipNormAfter(std::string_view value) const;
  Status SetEps(const OnnxNode& node);

  const OnnxGraph& graph_;
  const NodeIndex& index_;
  DecoderParts parts_;
};

Result<LinearRef> Recogniser::Linear(std::string_view value) const {
  LinearRef linear;
  const OnnxNode* node = index_.Producer(value);
  if (node != nullptr && node->op == "Add") {
    const bool first = index_.Initializer(InputOf(*node, 0)) != nullptr;
    linear.bias = InputOf(*node, first ? 0 : 1);
    if (index_.Initializer(linear.bias) == nullptr)
      return NotRecognised(node, value, "a linear layer");
    node = index_.Producer(InputOf(*node, first ? 1 : 0));
  }
  const bool known = node != nullptr && (node->op == "MatMulNBits" || node->op == "MatMul") &&
                     index_.Initializer(InputOf(*node, 1)) != nullptr;
  if (!known)
    return NotRecognised(node, value, "a linear layer");
  if (node->op == "MatMulNBits" && !InputOf(*node, 4).empty())
    return NotRecognised(node, value, "a MatMulNBits without g_idx");
  if (node->op == "MatMulNBits" && !InputOf(*node, 5).empty()) {
    if (!linear.bias.empty())
      return NotRecognised(node, value, "a linear layer with one bias");
    linear.bias = InputOf(*node, 5);
  }
  linear.node = node;
  linear.input = InputOf(*node, 0);
  return linear;
}

Status Recogniser::SetEps(const OnnxNode& node) {
  const float eps = FloatOr(node, "epsilon", 1e-5F);
  if (parts_.norm_eps != 0.0F && parts_.norm_eps != eps)
    return NotRecognised(&node, "", "a norm with the same epsilon as the others");
  parts_.norm_eps = eps;
  return {};
}

Result<const OnnxNode*> Recogniser::Norm(std::string_view value, std::string_view& weights) {
  const OnnxNode* node = index_.Producer(value);
  if (node == nullptr || (node->op != kNorm && node->op != kSkipNorm) ||
      OutputOf(*node, 0) != value)
    return NotRecognised(node, value, kNorm);
  const bool skip = node->op == kSkipNorm;
  weights = InputOf(*node, skip ? 2 : 1);
  if (index_.Initializer(weights) == nullptr || (skip && !InputOf(*node, 3).empty()))
    return NotRecognised(node, value, "a norm with weights and without bias");
  TENON_RETURN_IF_ERROR(SetEps(*node));
  return node;
}

// Takes the rotary caches from `node`; all layers must have the same.
Status Recogniser::Rotary(const OnnxNode& node, size_t cos_input) {
  const std::string_view cos = InputOf(node, cos_input);
  const std::string_view sin = InputOf(node, cos_input + 1);
  const bool interleaved =
      IntegerOr(node, node.op == kAttention ? "rotary_interleaved" : "interleaved", 0) != 0;
  if (index_.Initializer(cos) == nullptr || index_.Initializer(sin) == nullptr)
    return NotRecognised(&node, cos, "constant rotary caches");
  if (!parts_.cos_cache.empty() && (parts_.cos_cache != cos || parts_.sin_cache != sin ||
                                    parts_.rotary_interleaved != interleaved))
    return NotRecognised(&node, cos, "the other layers' rotary caches");
  parts_.cos_cache = cos;
  parts_.sin_cache = sin;
  parts_.rotary_interleaved = interleaved;
  return {};
}

// A projection that may be rotated and normalised per head (Reshape, norm, Reshape).
Status Recogniser::Query(std::string_view value, LinearRef& linear, std::string_view& head_norm) {
  const OnnxNode* node = index_.Producer(value);
  if (node != nullptr && node->op == "RotaryEmbedding") {
    TENON_RETURN_IF_ERROR(Rotary(*node, 2));
    value = InputOf(*node, 0);
    node = index_.Producer(value);
  }
  if (node != nullptr && node->op == "Reshape") {
    TENON_ASSIGN_OR_RETURN(const OnnxNode* norm, Norm(InputOf(*node, 0), head_norm));
    const OnnxNode* split = index_.Producer(InputOf(*norm, 0));
    if (norm->op != kNorm || split == nullptr || split->op != "Reshape")
      return NotRecognised(norm, value, "a norm of heads");
    value = InputOf(*split, 0);
  }
  TENON_ASSIGN_OR_RETURN(linear, Linear(value));
  return {};
}

Status Recogniser::Attention(const OnnxNode& node, DecoderLayerParts& layer) {
  layer.attention = &node;
  if (IntegerOr(node, "do_rotary", 0) != 0)
    TENON_RETURN_IF_ERROR(Rotary(node, 7));
  for (size_t i = 9; i < node.inputs.size(); ++i) {
    if (!InputOf(node, i).empty())
      return NotRecognised(&node, InputOf(node, i), "an attention without bias and sinks");
  }
  TENON_RETURN_IF_ERROR(Query(InputOf(node, 0), layer.q, layer.q_norm));
  if (!InputOf(node, 1).empty()) {
    TENON_RETURN_IF_ERROR(Query(InputOf(node, 1), layer.k, layer.k_norm));
    TENON_ASSIGN_OR_RETURN(layer.v, Linear(InputOf(node, 2)));
    if (layer.k.input != layer.q.input || layer.v.input != layer.q.input)
      return NotRecognised(&node, layer.k.input, "query, key and value of the same states");
  }
  return Norm(layer.q.input, layer.norm).ok()
             ? Status()
             : Status(NotRecognised(index_.Producer(layer.q.input), layer.q.input, kNorm));
}

Result<const OnnxNode*> Recogniser::SkipNormAfter(std::string_view value) const {
  for (const OnnxNode* node : index_.Consumers(value)) {
    if (node->op == kSkipNorm)
      return node;
  }
  return NotRecognised(nullptr, value, "a value that is added and normalised");
}

// down(silu(gate(x)) * up(x)), whose sum with the residual `down_user` normalises.
Status Recogniser::FeedForward(const OnnxNode& down_user, DecoderLayerParts& layer) {
  TENON_ASSIGN_OR_RETURN(layer.down, Linear(InputOf(down_user, 1)));
  const OnnxNode* gated = index_.Producer(layer.down.input);
  if (gated == nullptr || gated->op != "Mul")
    return NotRecognised(gated, layer.down.input, "a gated product");
  const OnnxNode* silu = index_.Producer(InputOf(*gated, 0));
  const OnnxNode* sigmoid =
      silu != nullptr && silu->op == "Mul" ? index_.Producer(InputOf(*silu, 1)) : nullptr;
  if (sigmoid == nullptr || sigmoid->op != "Sigmoid" || InputOf(*sigmoid, 0) != InputOf(*silu, 0))
    return NotRecognised(silu, InputOf(*gated, 0), "x * sigmoid(x)");
  TENON_ASSIGN_OR_RETURN(layer.gate, Linear(InputOf(*silu, 0)));
  TENON_ASSIGN_OR_RETURN(layer.up, Linear(InputOf(*gated, 1)));
  if (layer.gate.input != layer.up.input)
    return NotRecognised(gated, layer.up.input, "gate and up of the same states");
  return {};
}

Result<DecoderParts> Recogniser::Run(std::string_view input_ids, std::string_view logits) {
  for (const OnnxNode* node : index_.Consumers(input_ids)) {
    if (node->op == "Gather" || node->op == "GatherBlockQuantized")
      parts_.embedding = node;
  }
  if (parts_.embedding == nullptr)
    return NotRecognised(nullptr, input_ids, "the input of an embedding table");
  std::string_view states = OutputOf(*parts_.embedding, 0);
  for (const OnnxNode& node : graph_.nodes) {
    if (node.op != kAttention)
      continue;
    DecoderLayerParts layer;
    TENON_RETURN_IF_ERROR(Attention(node, layer));
    TENON_ASSIGN_OR_RETURN(const OnnxNode* before, Norm(layer.q.input, layer.norm));
    const std::string_view residual =
        before->op == kNorm ? InputOf(*before, 0) : OutputOf(*before, 3);
    if (residual != states)
      return NotRecognised(before, residual, "the states after the layer before");
    TENON_ASSIGN_OR_RETURN(const OnnxNode* middle, SkipNormAfter(residual));
    TENON_ASSIGN_OR_RETURN(layer.out, Linear(InputOf(*middle, 1)));
    if (InputOf(*middle, 0) != residual || layer.out.input != OutputOf(node, 0))
      return NotRecognised(middle, residual, "attention's output added to the states");
    TENON_RETURN_IF_ERROR(Norm(OutputOf(*middle, 0), layer.ffn_norm));
    TENON_ASSIGN_OR_RETURN(const OnnxNode* after, SkipNormAfter(OutputOf(*middle, 3)));
    TENON_RETURN_IF_ERROR(FeedForward(*after, layer));
    if (InputOf(*after, 0) != OutputOf(*middle, 3) || layer.gate.input != OutputOf(*middle, 0))
      return NotRecognised(after, InputOf(*after, 0), "the feed-forward's output added");
    TENON_RETURN_IF_ERROR(Norm(OutputOf(*after, 0), parts_.final_norm));
    states = OutputOf(*after, 3);
    parts_.head.input = OutputOf(*after, 0);
    parts_.layers.push_back(layer);
  }
  const std::string_view last = parts_.head.input;
  TENON_ASSIGN_OR_RETURN(parts_.head, Linear(logits));
  if (parts_.layers.empty() || parts_.head.input != last)
    return NotRecognised(parts_.head.node, logits, "the output head after the last layer");
  return std::move(parts_);
}

}  // namespace

Result<DecoderParts> RecogniseDecoder(const OnnxGraph& graph, const NodeIndex& index,
                                      std::string_view input_ids, std::string_view logits) {
  return Recogniser(graph, index).Run(input_ids, logits);
}

}  // namespace tenon

// DecoderBuilder: the pieces that decoder families share, over one Graph under construction.
//
// Errors stick: after the first one every call returns an invalid id and Finish returns the error,
// so that a family reads as straight code. Holds a reference to the source. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/plugin/plugin_operators.h"
#include "model/model_source.h"

namespace tenon {

RopeParams ToRopeParams(const RopeConfig& config);

class DecoderBuilder {
 public:
  explicit DecoderBuilder(const ModelSource& source);

  const ModelConfig& config() const { return source_.config; }
  ValueId tokens() const { return tokens_; }
  ValueId positions() const { return positions_; }

  // Prefixes the names of ops, and of tensors given as ".name", from here on.
  void SetLayer(int64_t layer);

  bool HasTensor(std::string_view name) const;

  // Rows of the token embedding table.
  ValueId Embed();
  // Rows position + first of the table of learned positions.
  ValueId EmbedPositions(int64_t first);
  // The embedding of the first type of token, for every token.
  ValueId EmbedFirstType();
  ValueId Norm(ValueId x, std::string_view tensor, int64_t group) {
    return NormWith(x, tensor, group, config().norm_eps);
  }
  ValueId NormWith(ValueId x, std::string_view tensor, int64_t group, float eps);
  // With "<name>.weight" and "<name>.bias" of the model's width.
  ValueId LayerNorm(ValueId x, std::string_view name);
  // The linear layer "<name>.weight" [rows, columns], with "<name>.bias" where the file has one.
  ValueId Linear(ValueId x, std::string_view name, int64_t rows, int64_t columns);
  // x itself in a layer without rotary positions.
  ValueId Rope(ValueId x, const RopeParams& rope) {
    return HasRope(config(), layer_) ? RopeHeads(x, rope, config().head_dim) : x;
  }
  ValueId RopeHeads(ValueId x, const RopeParams& rope, int64_t head_dim);
  ValueId Attention(ValueId q, ValueId k, ValueId v, const AttentionAttrs& attrs);
  // Attention attributes of the current layer as the hyperparameters say, without a window.
  AttentionAttrs DefaultAttention() const;

  ValueId Add(ValueId a, ValueId b) { return Append("residual", AddAttrs{}, {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Append("gated", MulAttrs{}, {a, b}); }
  ValueId Silu(ValueId x) { return Append("silu", SiluAttrs{}, {x}); }
  ValueId Activate(ValueId x, Activation activation);
  ValueId Scale(ValueId x, float factor) { return Append("scale", ScaleAttrs{factor}, {x}); }
  // The same; x itself when the factor is 1.
  ValueId Scaled(ValueId x, float factor) { return factor == 1.0F ? x : Scale(x, factor); }

  // What an operator of a plug-in computes; fails when no plug-in of the source has it. Weights
  // among the inputs: PluginWeight.
  ValueId Plugin(std::string_view what, PluginCallSpec spec, std::vector<ValueId> inputs) {
    return PluginOutputs(what, std::move(spec), std::move(inputs)).front();
  }
  // All its outputs; one invalid id after an error.
  std::vector<ValueId> PluginOutputs(std::string_view what, PluginCallSpec spec,
                                     std::vector<ValueId> inputs);
  // A tensor of this shape that is no linear layer's, such as "ffn_clip.weight".
  ValueId PluginWeight(std::string_view name, std::vector<int64_t> shape) {
    return Weight(TensorName(name), std::move(shape));
  }

  // x itself when nothing is left out or added.
  ValueId SliceHeads(ValueId x, const SliceHeadsAttrs& attrs);
  ValueId JoinHeads(const JoinHeadsAttrs& attrs, ValueId a, ValueId b) {
    return Append("join heads", attrs, {a, b});
  }
  ValueId PadHeads(ValueId x, int64_t heads, int64_t zeros) {
    return zeros == 0 ? x : Append("pad heads", JoinHeadsAttrs{heads, false, zeros}, {x});
  }

  // down(act(up(x))), act as the hyperparameters say.
  ValueId PlainFeedForward(ValueId x);
  // down(act(gate(x)) * up(x)) of the matrices "ffn_gate<suffix>" and so on, `ffn` wide in between.
  struct Gated {
    Activation activation = Activation::kSilu;
    int64_t ffn = 0;
    std::string_view suffix;
  };
  ValueId GatedFeedForward(ValueId x, const Gated& gated);
  ValueId GatedFeedForward(ValueId x, Activation activation) {
    return GatedFeedForward(x, {activation, config().ffn_size, {}});
  }
  // The mixture of experts of the current layer, shared experts included.
  ValueId ExpertFeedForward(ValueId x);
  // One of the two, as the hyperparameters say for the current layer.
  ValueId FeedForward(ValueId x, Activation activation) {
    return HasExperts(config(), layer_) ? ExpertFeedForward(x) : GatedFeedForward(x, activation);
  }

  // Chosen rows, final norm and output head (the embedding table when there is no output.weight);
  // marks the logits as the graph's output. The norm is a layer norm when it has a bias.
  void Head(ValueId x);
  // Chosen rows, as the graph's output and as its hidden states: an encoder's.
  void EncoderHead(ValueId x);

  // The graph, or the first error.
  Result<Graph> Finish();

 private:
  ValueId Append(std::string_view what, OpAttrs attrs, std::vector<ValueId> inputs);
  // x with its columns as "<name>.weight" has them (model/column_order.h).
  ValueId Ordered(ValueId x, std::string_view name, int64_t columns);
  ValueId Weight(const std::string& tensor, std::vector<int64_t> shape);
  // The current layer's "<name>.weight" [experts, rows, columns] as [experts * rows, columns].
  ValueId ExpertStack(std::string_view name, int64_t rows, int64_t columns);
  // Null and the error in status_ when the tensor is missing or has another shape.
  const TensorInfo* Checked(const std::string& tensor, std::span<const int64_t> shape);
  std::string TensorName(std::string_view name) const;
  ValueId Fail(Error error);

  const ModelSource& source_;
  Graph graph_;
  Status status_;
  int64_t layer_ = -1;
  ValueId tokens_;
  ValueId positions_;
  ValueId rows_;
};

}  // namespace tenon

#include "model/arch/decoder_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

#include "model/arch/architecture.h"

namespace tenon {

RopeParams ToRopeParams(const RopeConfig& config) {
  RopeParams params;
  params.base = config.base;
  params.rotary_dim = config.rotary_dim;
  params.interleaved = config.interleaved;
  params.scaling = static_cast<uint8_t>(config.scaling);
  params.factor = config.factor;
  params.original_context = config.original_context;
  params.low_freq_factor = config.low_freq_factor;
  params.high_freq_factor = config.high_freq_factor;
  params.beta_fast = config.beta_fast;
  params.beta_slow = config.beta_slow;
  params.ext_factor = config.ext_factor;
  params.attention_factor = config.attention_factor;
  return params;
}

DecoderBuilder::DecoderBuilder(const ModelSource& source) : source_(source) {
  const Dim tokens{Symbol::kTokens, 1};
  tokens_ = graph_.AddInput(std::string(kTokensInput), DType::kI32, {tokens});
  positions_ = graph_.AddInput(std::string(kPositionsInput), DType::kI32, {tokens});
  rows_ = graph_.AddInput(std::string(kRowsInput), DType::kI32, {Dim{Symbol::kOutputs, 1}});
}

void DecoderBuilder::SetLayer(int64_t layer) {
  layer_ = layer;
}

std::string DecoderBuilder::TensorName(std::string_view name) const {
  return layer_ < 0 ? std::string(name) : fmt::format("blk.{}.{}", layer_, name);
}

bool DecoderBuilder::HasTensor(std::string_view name) const {
  return source_.Find(TensorName(name)) != nullptr;
}

ValueId DecoderBuilder::Fail(Error error) {
  if (status_.ok())
    status_ = std::move(error);
  return ValueId();
}

ValueId DecoderBuilder::Append(std::string_view what, OpAttrs attrs, std::vector<ValueId> inputs) {
  if (!status_.ok())
    return ValueId();
  std::string name = layer_ < 0 ? std::string(what) : fmt::format("layer {} {}", layer_, what);
  auto outputs = graph_.AddOp(std::move(name), std::move(attrs), std::move(inputs));
  if (!outputs.ok())
    return Fail(std::move(outputs).error());
  return outputs->front();
}

ValueId DecoderBuilder::Weight(const std::string& tensor, std::vector<int64_t> shape) {
  const TensorInfo* info = source_.Find(tensor);
  if (info == nullptr)
    return Fail(Corrupt("the tensor is missing from the model", tensor));
  if (info->shape != shape) {
    return Fail(Corrupt(fmt::format("the tensor's shape is [{}], the hyperparameters need [{}]",
                                    fmt::join(info->shape, ", "), fmt::join(shape, ", ")),
                        tensor));
  }
  std::vector<Dim> dims;
  for (int64_t extent : shape)
    dims.push_back({Symbol::kNone, extent});
  return graph_.AddWeight(tensor, info->dtype, std::move(dims));
}

ValueId DecoderBuilder::Embed() {
  ValueId table = Weight("token_embd.weight", {config().vocab_size, config().hidden_size});
  return Append("token embedding", EmbedAttrs{}, {tokens_, table});
}

ValueId DecoderBuilder::Norm(ValueId x, std::string_view tensor, int64_t group) {
  ValueId weight = Weight(TensorName(tensor), {group});
  return Append(tensor.substr(0, tensor.rfind('.')), RmsNormAttrs{config().norm_eps, group},
                {x, weight});
}

ValueId DecoderBuilder::Linear(ValueId x, std::string_view name, int64_t rows, int64_t columns) {
  std::vector<ValueId> inputs = {
      x, Weight(TensorName(fmt::format("{}.weight", name)), {rows, columns})};
  LinearAttrs attrs;
  attrs.has_bias = HasTensor(fmt::format("{}.bias", name));
  if (attrs.has_bias)
    inputs.push_back(Weight(TensorName(fmt::format("{}.bias", name)), {rows}));
  return Append(name, attrs, std::move(inputs));
}

ValueId DecoderBuilder::Rope(ValueId x, const RopeParams& rope) {
  std::vector<ValueId> inputs = {x, positions_};
  if (source_.Find("rope_freqs.weight") != nullptr)
    inputs.push_back(Weight("rope_freqs.weight", {rope.rotary_dim / 2}));
  return Append("rope", RopeAttrs{config().head_dim, rope}, std::move(inputs));
}

AttentionAttrs DecoderBuilder::DefaultAttention() const {
  AttentionAttrs attrs;
  attrs.layer = layer_;
  attrs.heads = config().head_count;
  attrs.kv_heads = config().kv_head_count;
  attrs.head_dim = config().head_dim;
  attrs.scale = config().attention_scale != 0.0F
                    ? config().attention_scale
                    : 1.0F / std::sqrt(static_cast<float>(config().head_dim));
  attrs.softcap = config().attention_softcap;
  return attrs;
}

ValueId DecoderBuilder::Attention(ValueId q, ValueId k, ValueId v, const AttentionAttrs& attrs) {
  return Append("attention", attrs, {q, k, v, positions_});
}

ValueId DecoderBuilder::GatedFeedForward(ValueId x, Activation activation) {
  const int64_t hidden = config().hidden_size;
  const int64_t ffn = config().ffn_size;
  ValueId gate = Linear(x, "ffn_gate", ffn, hidden);
  ValueId up = Linear(x, "ffn_up", ffn, hidden);
  ValueId activated = activation == Activation::kSilu ? Silu(gate) : Gelu(gate);
  return Linear(Mul(activated, up), "ffn_down", hidden, ffn);
}

void DecoderBuilder::Head(ValueId x) {
  SetLayer(-1);
  ValueId rows = Append("output rows", SelectRowsAttrs{}, {x, rows_});
  ValueId normed = Norm(rows, "output_norm.weight", config().hidden_size);
  ValueId logits;
  if (HasTensor("output.weight")) {
    logits = Linear(normed, "output", config().vocab_size, config().hidden_size);
  } else {
    ValueId table = Weight("token_embd.weight", {config().vocab_size, config().hidden_size});
    logits = Append("output", LinearAttrs{}, {normed, table});
  }
  logits = Scaled(logits, config().logit_scale);
  if (config().final_logit_softcap > 0.0F)
    logits = Append("logit softcap", SoftcapAttrs{config().final_logit_softcap}, {logits});
  graph_.MarkOutput(logits);
  graph_.MarkOutput(normed);
}

Result<Graph> DecoderBuilder::Finish() {
  if (!status_.ok())
    return std::move(status_).error();
  return std::move(graph_);
}

}  // namespace tenon

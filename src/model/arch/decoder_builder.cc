#include "model/arch/decoder_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/arch/architecture.h"
#include "model/column_order.h"

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
  auto outputs = graph_.AddOp(std::move(name), attrs, std::move(inputs));
  if (!outputs.ok())
    return Fail(std::move(outputs).error());
  return outputs->front();
}

std::vector<ValueId> DecoderBuilder::PluginOutputs(std::string_view what, PluginCallSpec spec,
                                                   std::vector<ValueId> inputs) {
  if (!status_.ok())
    return {ValueId()};
  std::string name = layer_ < 0 ? std::string(what) : fmt::format("layer {} {}", layer_, what);
  const PluginOperators none;
  auto outputs = AddPluginOp(graph_, source_.plugins == nullptr ? none : *source_.plugins,
                             std::move(name), std::move(spec), std::move(inputs));
  if (!outputs.ok())
    return {Fail(std::move(outputs).error())};
  return std::move(*outputs);
}

const TensorInfo* DecoderBuilder::Checked(const std::string& tensor,
                                          std::span<const int64_t> shape) {
  const TensorInfo* info = source_.Find(tensor);
  if (info == nullptr) {
    Fail(Corrupt("the tensor is missing from the model", tensor));
    return nullptr;
  }
  if (std::ranges::equal(info->shape, shape))
    return info;
  Fail(Corrupt(fmt::format("the tensor's shape is [{}], the hyperparameters need [{}]",
                           fmt::join(info->shape, ", "), fmt::join(shape, ", ")),
               tensor));
  return nullptr;
}

ValueId DecoderBuilder::Weight(const std::string& tensor, std::vector<int64_t> shape) {
  const TensorInfo* info = Checked(tensor, shape);
  if (info == nullptr)
    return ValueId();
  std::vector<Dim> dims;
  for (int64_t extent : shape)
    dims.push_back({Symbol::kNone, extent});
  return graph_.AddWeight(tensor, info->dtype, std::move(dims));
}

ValueId DecoderBuilder::ExpertStack(std::string_view name, int64_t rows, int64_t columns) {
  const std::string tensor = TensorName(fmt::format("{}.weight", name));
  const int64_t experts = config().experts.count;
  const TensorInfo* info = Checked(tensor, std::array{experts, rows, columns});
  if (info == nullptr)
    return ValueId();
  return graph_.AddWeight(tensor, info->dtype,
                          {{Symbol::kNone, experts * rows}, {Symbol::kNone, columns}});
}

ValueId DecoderBuilder::Embed() {
  ValueId table = Weight("token_embd.weight", {config().vocab_size, config().hidden_size});
  return Append("token embedding", EmbedAttrs{}, {tokens_, table});
}

ValueId DecoderBuilder::EmbedPositions(int64_t first) {
  EmbedAttrs attrs;
  attrs.offset = first;
  ValueId table =
      Weight("position_embd.weight", {config().context_length + first, config().hidden_size});
  return Append("position embedding", attrs, {positions_, table});
}

ValueId DecoderBuilder::EmbedFirstType() {
  constexpr const char* kTable = "token_types.weight";
  const TensorInfo* info = source_.Find(kTable);
  const int64_t types = info == nullptr || info->shape.empty() ? 1 : info->shape.front();
  EmbedAttrs attrs;
  attrs.only_row = 0;
  return Append("token type embedding", attrs,
                {tokens_, Weight(kTable, {types, config().hidden_size})});
}

ValueId DecoderBuilder::NormWith(ValueId x, std::string_view tensor, int64_t group, float eps) {
  ValueId weight = Weight(TensorName(tensor), {group});
  return Append(tensor.substr(0, tensor.rfind('.')), RmsNormAttrs{eps, group}, {x, weight});
}

ValueId DecoderBuilder::LayerNorm(ValueId x, std::string_view name) {
  const int64_t width = config().hidden_size;
  ValueId weight = Weight(TensorName(fmt::format("{}.weight", name)), {width});
  ValueId bias = Weight(TensorName(fmt::format("{}.bias", name)), {width});
  return Append(name, LayerNormAttrs{config().norm_eps}, {x, weight, bias});
}

ValueId DecoderBuilder::Ordered(ValueId x, std::string_view name, int64_t columns) {
  const TensorInfo* order = source_.Find(TensorName(fmt::format("{}{}", name, kOrderSuffix)));
  if (order == nullptr)
    return x;
  return Append("column order", PermuteAttrs{}, {x, Weight(order->name, {columns})});
}

ValueId DecoderBuilder::Linear(ValueId x, std::string_view name, int64_t rows, int64_t columns) {
  std::vector<ValueId> inputs = {
      Ordered(x, name, columns),
      Weight(TensorName(fmt::format("{}.weight", name)), {rows, columns})};
  LinearAttrs attrs;
  attrs.has_bias = HasTensor(fmt::format("{}.bias", name));
  if (attrs.has_bias)
    inputs.push_back(Weight(TensorName(fmt::format("{}.bias", name)), {rows}));
  return Append(name, attrs, std::move(inputs));
}

ValueId DecoderBuilder::RopeHeads(ValueId x, const RopeParams& rope, int64_t head_dim) {
  std::vector<ValueId> inputs = {x, positions_};
  if (source_.Find("rope_freqs.weight") != nullptr)
    inputs.push_back(Weight("rope_freqs.weight", {rope.rotary_dim / 2}));
  return Append("rope", RopeAttrs{head_dim, rope}, std::move(inputs));
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

ValueId DecoderBuilder::Activate(ValueId x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return Silu(x);
    case Activation::kGelu:
      return Append("gelu", GeluAttrs{}, {x});
    case Activation::kGeluErf:
      return Append("gelu", GeluAttrs{true}, {x});
    case Activation::kRelu:
      return Append("relu", ReluAttrs{}, {x});
  }
  return x;
}

ValueId DecoderBuilder::SliceHeads(ValueId x, const SliceHeadsAttrs& attrs) {
  const bool whole = x.valid() && attrs.begin == 0 &&
                     graph_.value(x).shape.back().extent == attrs.heads * attrs.count;
  return whole ? x : Append("slice heads", attrs, {x});
}

ValueId DecoderBuilder::PlainFeedForward(ValueId x) {
  const int64_t hidden = config().hidden_size;
  const int64_t ffn = config().ffn_size;
  ValueId up = Activate(Linear(x, "ffn_up", ffn, hidden), config().activation);
  return Linear(up, "ffn_down", hidden, ffn);
}

ValueId DecoderBuilder::GatedFeedForward(ValueId x, const Gated& gated) {
  const int64_t hidden = config().hidden_size;
  const auto name = [&](std::string_view stem) { return fmt::format("{}{}", stem, gated.suffix); };
  ValueId gate = Linear(x, name("ffn_gate"), gated.ffn, hidden);
  ValueId up = Linear(x, name("ffn_up"), gated.ffn, hidden);
  return Linear(Mul(Activate(gate, gated.activation), up), name("ffn_down"), hidden, gated.ffn);
}

ValueId DecoderBuilder::ExpertFeedForward(ValueId x) {
  const ExpertConfig& experts = config().experts;
  const int64_t hidden = config().hidden_size;
  std::vector<ValueId> logits = {Linear(x, "ffn_gate_inp", experts.count, hidden)};
  if (HasTensor("exp_probs_b.bias"))
    logits.push_back(Weight(TensorName("exp_probs_b.bias"), {experts.count}));
  ValueId route =
      Append("route",
             RouteAttrs{experts.used, experts.sigmoid, experts.normalized, experts.scale,
                        experts.groups, experts.used_groups, experts.group_best},
             std::move(logits));
  ValueId mixed = Append("experts", ExpertsAttrs{experts.count, experts.used, Epilogue::kSiluMul},
                         {x, route, ExpertStack("ffn_gate_exps", experts.ffn_size, hidden),
                          ExpertStack("ffn_up_exps", experts.ffn_size, hidden),
                          ExpertStack("ffn_down_exps", hidden, experts.ffn_size)});
  if (experts.shared_ffn_size == 0)
    return mixed;
  ValueId shared = GatedFeedForward(x, {Activation::kSilu, experts.shared_ffn_size, "_shexp"});
  // Qwen2-MoE's shared expert counts as much as its own gate says.
  if (HasTensor("ffn_gate_inp_shexp.weight")) {
    shared = Append("gated shared expert", GateRowsAttrs{},
                    {shared, Linear(x, "ffn_gate_inp_shexp", 1, hidden)});
  }
  return Append("all experts", AddAttrs{}, {mixed, shared});
}

void DecoderBuilder::Head(ValueId x) {
  SetLayer(-1);
  ValueId rows = Append("output rows", SelectRowsAttrs{}, {x, rows_});
  ValueId normed = HasTensor("output_norm.bias")
                       ? LayerNorm(rows, "output_norm")
                       : Norm(rows, "output_norm.weight", config().hidden_size);
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

void DecoderBuilder::EncoderHead(ValueId x) {
  SetLayer(-1);
  SelectRowsAttrs attrs;
  attrs.pooling = config().pooling == Pooling::kMean    ? 1
                  : config().pooling == Pooling::kFirst ? 2
                                                        : 0;
  ValueId rows = Append("output rows", attrs, {x, rows_});
  graph_.MarkOutput(rows);
  graph_.MarkOutput(rows);
}

Result<Graph> DecoderBuilder::Finish() {
  if (!status_.ok())
    return std::move(status_).error();
  return std::move(graph_);
}

}  // namespace tenon

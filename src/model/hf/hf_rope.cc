// ReadHfRope and ReadHfWindows (hf_config.h).
#include <fmt/format.h>

#include <cmath>

#include "model/hf/hf_config.h"

namespace tenon {
namespace {

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

// Where the parameters stand: transformers 5 has rope_parameters, with one member for each kind of
// layer where kinds differ; transformers 4 has rope_scaling, which may be null, and rope_theta
// beside it.
std::optional<JsonValue> FindParameters(const JsonValue& root, std::string_view kind) {
  auto parameters = root.Find("rope_parameters");
  if (!parameters)
    return kind == kFull ? root.Find("rope_scaling") : std::nullopt;
  if (parameters->Find(kFull) || parameters->Find(kSliding))
    return parameters->Find(kind);
  return parameters;
}

Status ReadLlama3(const JsonValue& parameters, RopeConfig& rope) {
  rope.scaling = RopeScaling::kLlama3;
  for (const std::string_view key : {"factor", "low_freq_factor", "high_freq_factor"})
    TENON_RETURN_IF_ERROR(parameters.At(key));
  TENON_RETURN_IF_ERROR(ReadPositive(parameters, "low_freq_factor", rope.low_freq_factor));
  TENON_RETURN_IF_ERROR(ReadPositive(parameters, "high_freq_factor", rope.high_freq_factor));
  if (rope.high_freq_factor > rope.low_freq_factor)
    return {};
  return parameters.Wrong(fmt::format("high_freq_factor {} is not above low_freq_factor {}",
                                      rope.high_freq_factor, rope.low_freq_factor));
}

float YarnMagnitude(float factor, float scale) {
  return factor <= 1.0F ? 1.0F : 0.1F * scale * std::log(factor) + 1.0F;
}

Status ReadYarn(const JsonValue& parameters, RopeConfig& rope) {
  rope.scaling = RopeScaling::kYarn;
  TENON_RETURN_IF_ERROR(ReadPositive(parameters, "beta_fast", rope.beta_fast));
  TENON_RETURN_IF_ERROR(ReadPositive(parameters, "beta_slow", rope.beta_slow));
  TENON_ASSIGN_OR_RETURN(const bool truncate, parameters.BoolOr("truncate", true));
  if (!truncate)
    return parameters.NotSupported("truncate false: bounds of the ramp that are not whole");
  // DeepSeek's two factors; transformers takes them only together.
  TENON_ASSIGN_OR_RETURN(const double mscale, parameters.NumberOr("mscale", 0.0));
  TENON_ASSIGN_OR_RETURN(const double all_dim, parameters.NumberOr("mscale_all_dim", 0.0));
  rope.attention_factor = YarnMagnitude(rope.factor, 1.0F);
  if (mscale != 0.0 && all_dim != 0.0) {
    rope.attention_factor = YarnMagnitude(rope.factor, static_cast<float>(mscale)) /
                            YarnMagnitude(rope.factor, static_cast<float>(all_dim));
  }
  return ReadPositive(parameters, "attention_factor", rope.attention_factor);
}

// The context that the model was trained with before it was extended.
Status ReadOriginalContext(const JsonValue& root, const JsonValue& parameters,
                           const ModelConfig& model, RopeConfig& rope) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  rope.original_context = model.context_length;
  auto field = parameters.Find(kKey);
  if (!field)
    field = root.Find(kKey);
  if (!field)
    return {};
  TENON_ASSIGN_OR_RETURN(rope.original_context, field->Integer());
  if (rope.original_context >= 1 && rope.original_context <= (int64_t{1} << 40))
    return {};
  return field->Wrong(fmt::format("{} found, a number of tokens expected", rope.original_context));
}

Status ReadScaling(const JsonValue& root, const JsonValue& parameters, const ModelConfig& model,
                   RopeConfig& rope) {
  TENON_ASSIGN_OR_RETURN(const std::string old_name, parameters.StringOr("type", "default"));
  TENON_ASSIGN_OR_RETURN(const std::string type, parameters.StringOr("rope_type", old_name));
  if (type == "default")
    return {};
  TENON_RETURN_IF_ERROR(ReadOriginalContext(root, parameters, model, rope));
  TENON_RETURN_IF_ERROR(ReadPositive(parameters, "factor", rope.factor));
  if (type == "linear") {
    TENON_RETURN_IF_ERROR(parameters.At("factor"));
    rope.scaling = RopeScaling::kLinear;
    return {};
  }
  if (type == "llama3")
    return ReadLlama3(parameters, rope);
  if (type == "yarn") {
    if (!parameters.Find("factor")) {
      rope.factor =
          static_cast<float>(model.context_length) / static_cast<float>(rope.original_context);
    }
    return ReadYarn(parameters, rope);
  }
  return parameters.Member("rope_type", parameters.element())
      .NotSupported(fmt::format("'{}'; known are default, linear, llama3 and yarn", type));
}

// Part of each head that is rotated.
Status ReadRotaryDim(const JsonValue& root, const std::optional<JsonValue>& parameters,
                     HfConfig& config) {
  float share = config.family->rotary_share;
  for (const std::string_view key : {"rotary_pct", "partial_rotary_factor"})
    TENON_RETURN_IF_ERROR(ReadPositive(root, key, share));
  if (parameters)
    TENON_RETURN_IF_ERROR(ReadPositive(*parameters, "partial_rotary_factor", share));
  RopeConfig& rope = config.model.rope;
  const int64_t whole =
      config.model.latent.rotary_dim > 0 ? config.model.latent.rotary_dim : config.model.head_dim;
  const double dims = static_cast<double>(whole) * static_cast<double>(share);
  // 0.4f is a little more or less than 0.4: what transformers' doubles round to is meant.
  rope.rotary_dim = dims <= static_cast<double>(whole) ? static_cast<int64_t>(dims + 1e-4) : -1;
  if (rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0)
    return {};
  return root.Member("partial_rotary_factor", root.element())
      .Wrong(fmt::format("{} of {} found, an even number of values expected", share, whole));
}

Status ReadBase(const JsonValue& root, const std::optional<JsonValue>& parameters,
                std::string_view old_key, float& base) {
  TENON_RETURN_IF_ERROR(ReadPositive(root, old_key, base));
  return parameters ? ReadPositive(*parameters, "rope_theta", base) : Status();
}

Status ReadSlidingRope(const JsonValue& root, HfConfig& config) {
  if (config.family->name != "gemma3")
    return {};
  config.model.sliding_rope_base = 10000.0F;
  const auto parameters = FindParameters(root, kSliding);
  TENON_RETURN_IF_ERROR(
      ReadBase(root, parameters, "rope_local_base_freq", config.model.sliding_rope_base));
  if (!parameters)
    return {};
  TENON_ASSIGN_OR_RETURN(const std::string type, parameters->StringOr("rope_type", "default"));
  if (type == "default")
    return {};
  return parameters->NotSupported(fmt::format("'{}' for sliding layers", type));
}

// SmolLM3's list has 1 for layers that are rotated, and maybe more layers than the model.
Status ReadRopeFreeLayers(const JsonValue& root, HfConfig& config) {
  ModelConfig& model = config.model;
  int64_t interval = config.family->rope_free_every;
  if (interval == 0)
    return {};
  const auto list = root.Find("no_rope_layers");
  if (!list) {
    TENON_RETURN_IF_ERROR(ReadSize(root, "no_rope_layer_interval", interval));
    model.rope_free_layers = EveryNthLayer(model.layer_count, interval);
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const auto layers, list->Array());
  if (layers.size() < static_cast<size_t>(model.layer_count)) {
    return list->Wrong(
        fmt::format("{} layers found, {} expected", layers.size(), model.layer_count));
  }
  for (const simdjson::dom::element item : layers) {
    const JsonValue entry = list->Item(model.rope_free_layers.size(), item);
    TENON_ASSIGN_OR_RETURN(const int64_t rotated, entry.Integer());
    if (rotated != 0 && rotated != 1)
      return entry.Wrong(fmt::format("{} found, 0 or 1 expected", rotated));
    model.rope_free_layers.push_back(rotated == 0);
  }
  return {};
}

Result<int64_t> ReadWindow(const JsonValue& root) {
  const auto field = root.Find("sliding_window");
  if (!field)
    return int64_t{0};
  TENON_ASSIGN_OR_RETURN(const int64_t window, field->Integer());
  if (window < 1 || window > INT32_MAX)
    return field->Wrong(fmt::format("{} found, 1 to 2^31-1 expected", window));
  return window;
}

Status ReadLayerTypes(const JsonValue& list, HfConfig& config) {
  TENON_ASSIGN_OR_RETURN(const auto kinds, list.Array());
  ModelConfig& model = config.model;
  if (kinds.size() != static_cast<size_t>(model.layer_count)) {
    return list.Wrong(fmt::format("{} kinds found, one for each of {} layers expected",
                                  kinds.size(), model.layer_count));
  }
  for (const simdjson::dom::element item : kinds) {
    const JsonValue entry = list.Item(model.layer_windows.size(), item);
    TENON_ASSIGN_OR_RETURN(const std::string_view kind, entry.String());
    if (kind != kFull && kind != kSliding)
      return entry.NotSupported(fmt::format("'{}'; known are {} and {}", kind, kFull, kSliding));
    if (kind == kSliding && model.sliding_window == 0)
      return entry.Wrong("a sliding layer, but there is no sliding_window");
    model.layer_windows.push_back(kind == kSliding ? model.sliding_window : 0);
  }
  return {};
}

// Which layers slide where the file does not list them.
Status FillLayerWindows(const JsonValue& root, HfConfig& config) {
  ModelConfig& model = config.model;
  int64_t pattern = config.family->window_pattern;
  if (config.family->window == HfWindow::kRopeFreeLayers) {
    for (int64_t layer = 0; layer < model.layer_count; ++layer)
      model.layer_windows.push_back(HasRope(model, layer) ? 0 : model.sliding_window);
    return {};
  }
  int64_t first = model.layer_count;  // sliding layers from here on
  if (config.family->window == HfWindow::kPattern) {
    TENON_ASSIGN_OR_RETURN(pattern, root.IntegerOr("_sliding_window_pattern", pattern));
    TENON_ASSIGN_OR_RETURN(pattern, root.IntegerOr("sliding_window_pattern", pattern));
    if (pattern < 1)
      return root.Member("sliding_window_pattern", root.element()).Wrong("1 or more expected");
  } else {
    TENON_ASSIGN_OR_RETURN(first, root.IntegerOr("max_window_layers", 28));
  }
  for (int64_t layer = 0; layer < model.layer_count; ++layer) {
    const bool slides =
        config.family->window == HfWindow::kPattern ? (layer + 1) % pattern != 0 : layer >= first;
    model.layer_windows.push_back(slides ? model.sliding_window : 0);
  }
  return {};
}

}  // namespace

Status ReadHfRope(const JsonValue& root, HfConfig& config) {
  RopeConfig& rope = config.model.rope;
  if (config.family->rotary_share == 0.0F)
    return {};
  // Hugging Face keeps query and key rows as they were trained: pairs are (p, p + rotary_dim / 2).
  // DeepSeek's own are pairs of neighbours, unless the file says otherwise.
  TENON_ASSIGN_OR_RETURN(rope.interleaved,
                         root.BoolOr("rope_interleave", config.family->name == "deepseek2"));
  rope.base = config.family->rope_base;
  const auto parameters = FindParameters(root, kFull);
  TENON_RETURN_IF_ERROR(ReadPositive(root, "rotary_emb_base", rope.base));
  TENON_RETURN_IF_ERROR(ReadBase(root, parameters, "rope_theta", rope.base));
  TENON_RETURN_IF_ERROR(ReadRotaryDim(root, parameters, config));
  if (parameters)
    TENON_RETURN_IF_ERROR(ReadScaling(root, *parameters, config.model, rope));
  TENON_RETURN_IF_ERROR(ReadRopeFreeLayers(root, config));
  return ReadSlidingRope(root, config);
}

Status ReadHfWindows(const JsonValue& root, HfConfig& config) {
  ModelConfig& model = config.model;
  if (config.family->window == HfWindow::kNone)
    return {};
  if (config.family->window == HfWindow::kLastLayers ||
      config.family->window == HfWindow::kRopeFreeLayers ||
      config.family->window == HfWindow::kEveryLayerIfUsed) {
    TENON_ASSIGN_OR_RETURN(const bool used, root.BoolOr("use_sliding_window", false));
    if (!used)
      return {};
  }
  TENON_ASSIGN_OR_RETURN(model.sliding_window, ReadWindow(root));
  if (model.sliding_window == 0 || config.family->window == HfWindow::kEveryLayer ||
      config.family->window == HfWindow::kEveryLayerIfUsed)
    return {};
  const auto kinds = root.Find("layer_types");
  return kinds ? ReadLayerTypes(*kinds, config) : FillLayerWindows(root, config);
}

}  // namespace tenon

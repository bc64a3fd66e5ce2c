#include "frontend/server/api/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>

#include "frontend/server/api/sampler_chain.h"

namespace tenon {
namespace {

constexpr int64_t kAnyInt = std::numeric_limits<int32_t>::max();

// Entries of logit_bias: each is looked at for every token that is chosen.
constexpr size_t kMaxBiases = 4096;

// A bias is a number, or false for "never".
Result<float> BiasOf(const Json& value, const std::string& path) {
  if (value.is_number())
    return ReadFloat(value, path);
  if (value.is_boolean() && !value.get<bool>())
    return -std::numeric_limits<float>::infinity();
  return InvalidArgument(fmt::format("found {}, expected a number or false", JsonTypeName(value)),
                         path);
}

// The tokens that a key or a first element means: an id, the same as a string, or a text, each of
// whose tokens gets the bias.
Result<std::vector<int32_t>> BiasTokens(const Json& key, const Tokenizer& tokenizer,
                                        const std::string& path) {
  int64_t id = -1;
  if (key.is_number_integer()) {
    id = key.get<int64_t>();
  } else if (key.is_string()) {
    const auto& text = key.get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, id);
    if (text.empty() || status != std::errc() || rest != end)
      return tokenizer.Encode(text, SpecialText::kPlain, AddSpecial::kNone);
  } else {
    return InvalidArgument(
        fmt::format("found {}, expected a token id or a text", JsonTypeName(key)), path);
  }
  if (id < 0 || id >= tokenizer.vocab_size()) {
    return InvalidArgument(
        fmt::format("token {} is outside the vocabulary of {}", id, tokenizer.vocab_size()), path);
  }
  return std::vector<int32_t>{static_cast<int32_t>(id)};
}

Status AddBias(const Json& key, const Json& value, const Tokenizer& tokenizer,
               std::vector<LogitBias>& biases) {
  const std::string path = "logit_bias";
  TENON_ASSIGN_OR_RETURN(const auto tokens, BiasTokens(key, tokenizer, path));
  TENON_ASSIGN_OR_RETURN(const float bias, BiasOf(value, path));
  for (const int32_t token : tokens)
    biases.push_back({token, bias});
  return {};
}

// {"id": bias} or [[id, bias], ...].
Status ReadBiases(const Json& field, const Tokenizer& tokenizer, std::vector<LogitBias>& biases) {
  if (!field.is_structured() || field.size() > kMaxBiases) {
    return InvalidArgument(fmt::format("found {}, expected an object, or an array of pairs, of at "
                                       "most {} entries",
                                       JsonTypeName(field), kMaxBiases),
                           "logit_bias");
  }
  if (field.is_object()) {
    for (const auto& [key, value] : field.get_ref<const Json::object_t&>())
      TENON_RETURN_IF_ERROR(AddBias(Json(key), value, tokenizer, biases));
    return {};
  }
  for (const Json& pair : field) {
    if (!pair.is_array() || pair.size() != 2)
      return InvalidArgument("expected pairs [token, bias]", "logit_bias");
    TENON_RETURN_IF_ERROR(AddBias(pair[0], pair[1], tokenizer, biases));
  }
  return {};
}

void ReadDry(FieldReader& fields, SamplingParams& sampling) {
  fields.Float("dry_multiplier", sampling.dry_multiplier);
  fields.Float("dry_base", sampling.dry_base);
  fields.Int("dry_allowed_length", sampling.dry_allowed_length, {1, kAnyInt});
  fields.Int("dry_penalty_last_n", sampling.dry_penalty_last_n, {-1, kAnyInt});
  fields.Strings("dry_sequence_breakers", sampling.dry_sequence_breakers);
}

void ReadPenalties(FieldReader& fields, SamplingParams& sampling) {
  fields.Float("presence_penalty", sampling.presence_penalty);
  fields.Float("frequency_penalty", sampling.frequency_penalty);
  fields.Float("repetition_penalty", sampling.repetition_penalty);
  fields.Float("repeat_penalty", sampling.repetition_penalty);
  fields.Int("repeat_last_n", sampling.penalty_last_n, {-1, kAnyInt});
}

// Known to other servers, without a counterpart here.
void RefuseOthers(FieldReader& fields) {
  fields.Refuse("top_n_sigma", "there is no such filter", {-1, -1.0, 0, 0.0});
  fields.Refuse("dynatemp_range", "the temperature does not vary", {0, 0.0});
  fields.Refuse("dynatemp_exponent", "the temperature does not vary", {1, 1.0});
  fields.Refuse("n_discard", "the context is never shifted", {0});
  fields.Refuse("lora", "there are no adapters", {Json::array()});
  fields.Refuse("min_tokens", "use ignore_eos", {0});
  fields.Refuse("min_keep", "there is no such filter", {0});
  fields.Refuse("stop_token_ids", "use stop", {Json::array()});
  fields.Refuse("truncate_prompt_tokens", "a prompt is never cut");
  fields.Refuse("skip_special_tokens", "control tokens are never in the text", {true});
  fields.Refuse("spaces_between_special_tokens", "control tokens are never in the text",
                {true, false});
  fields.Refuse("include_stop_str_in_output", "a stop is never in the text", {false});
  fields.Refuse("use_beam_search", "tokens are sampled", {false});
  fields.Refuse("length_penalty", "tokens are sampled", {1, 1.0});
  fields.Refuse("bad_words", "use logit_bias", {Json::array()});
  fields.Refuse("allowed_token_ids", "use logit_bias", {Json::array()});
  fields.Refuse("prompt_logprobs", "use echo and logprobs of /v1/completions", {0});
}

// Any number: how many a server takes is for its engine to say.
void ReadChoices(FieldReader& fields, ServingRequest& request) {
  int64_t choices = request.choices;
  fields.Int("n", choices,
             {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  request.choices = static_cast<int32_t>(std::clamp<int64_t>(choices, -kAnyInt, kAnyInt));
}

// The acceleration modules that may work on the request: true (all), false (none), or names.
void ReadModules(FieldReader& fields, ServingRequest& request) {
  const Json* modules = fields.Any("modules");
  if (modules == nullptr || *modules == true)
    return;
  std::vector<std::string> names;
  if (*modules != false)
    fields.Strings("modules", names);
  request.modules = std::move(names);
}

}  // namespace

uint64_t NewSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

void ReadSeed(FieldReader& fields, SamplingParams& sampling) {
  int64_t seed = -1;
  fields.Int("seed", seed,
             {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  sampling.seed = seed < 0 ? NewSeed() : static_cast<uint64_t>(seed);
}

void ReadTopK(FieldReader& fields, SamplingParams& sampling) {
  fields.Int("top_k", sampling.top_k, {-1, kAnyInt});
  sampling.top_k = std::max(sampling.top_k, 0);
}

void CheckSampling(FieldReader& fields, const Tokenizer& tokenizer,
                   const SamplingParams& sampling) {
  const Status status = ValidateSamplingParams(sampling, tokenizer.vocab_size());
  if (status.ok())
    return;
  const Error& error = status.error();
  const bool is_renamed =
      error.where == "repetition_penalty" && fields.Any("repeat_penalty") != nullptr;
  fields.Fail(is_renamed ? "repeat_penalty" : error.where, error.message, error.code);
}

void ReadMaxTokens(FieldReader& fields, std::string_view name, int64_t& value) {
  fields.Int(name, value, {-1, kAnyInt});
}

void ReadSamplingFields(FieldReader& fields, const Tokenizer& tokenizer, ServingRequest& request) {
  SamplingParams& sampling = request.sampling;
  fields.Float("temperature", sampling.temperature);
  ReadTopK(fields, sampling);
  fields.Float("top_p", sampling.top_p);
  fields.Float("min_p", sampling.min_p);
  fields.Float("typical_p", sampling.typical_p);
  ReadPenalties(fields, sampling);
  ReadDry(fields, sampling);
  fields.Float("xtc_probability", sampling.xtc_probability);
  fields.Float("xtc_threshold", sampling.xtc_threshold);
  fields.Int("mirostat", sampling.mirostat, {0, 2});
  fields.Float("mirostat_tau", sampling.mirostat_tau);
  fields.Float("mirostat_eta", sampling.mirostat_eta);
  ReadSeed(fields, sampling);
  if (const Json* biases = fields.Any("logit_bias"); biases != nullptr)
    fields.Take(ReadBiases(*biases, tokenizer, sampling.logit_bias));
  fields.Strings("stop", request.stop);
  bool ignore_eos = false;
  fields.Bool("ignore_eos", ignore_eos);
  request.end_tokens = ignore_eos ? EndTokens::kIgnore : EndTokens::kStop;
  bool cache_prompt = true;
  fields.Bool("cache_prompt", cache_prompt);
  request.prefix_cache = cache_prompt ? PrefixCache::kOn : PrefixCache::kOff;
  ReadChoices(fields, request);
  ReadModules(fields, request);
  ReadSamplers(fields, sampling);
  // The context is never shifted, so that every token of the prompt is kept anyway.
  int64_t kept = 0;
  fields.Int("n_keep", kept, {-1, kAnyInt});
  fields.Int("id_slot", request.slot, {-1, kAnyInt});
  CheckSampling(fields, tokenizer, sampling);
  RefuseOthers(fields);
}

}  // namespace tenon

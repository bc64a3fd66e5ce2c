#include "frontend/server/api/llama_format.h"

#include <utility>

#include "frontend/server/api/answer_json.h"
#include "frontend/server/api/sampler_chain.h"
#include "frontend/server/api/text_job.h"

namespace tenon {
namespace {

class LlamaFormat final : public AnswerFormat {
 public:
  explicit LlamaFormat(LlamaOptions options) : options_(std::move(options)) {}

  Json Whole(const ApiAnswer& answer) override;
  void OnStarted(const ApiAnswer&, size_t, AnswerChannel&) override {}
  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel& channel) override;
  void OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) override;
  void OnEnd(const ApiAnswer&, AnswerChannel&) override {}

 private:
  Json Final(const ApiAnswer& answer, size_t index, Delivery delivery) const;
  void AddEnd(const AnswerChoice& choice, Json& json) const;
  Json Selected(Json json) const;

  LlamaOptions options_;
};

// "eos", "word" or "limit".
const char* StopType(const AnswerChoice& choice) {
  if (choice.finish_reason == FinishReason::kLength)
    return "limit";
  return choice.stop_text.empty() ? "eos" : "word";
}

// The value at "a/b"; null when there is none.
const Json* FindPath(const Json& json, std::string_view path) {
  const Json* value = &json;
  while (value != nullptr) {
    const size_t slash = path.find('/');
    value = FindField(*value, path.substr(0, slash));
    if (slash == std::string_view::npos)
      break;
    path.remove_prefix(slash + 1);
  }
  return value;
}

// A field that is not there is left out, and one inside another keeps its whole path as its name.
Json LlamaFormat::Selected(Json json) const {
  if (options_.response_fields.empty())
    return json;
  Json selected = Json::object();
  for (const std::string& path : options_.response_fields) {
    if (const Json* value = FindPath(json, path); value != nullptr)
      selected[path] = *value;
  }
  return selected;
}

void LlamaFormat::AddEnd(const AnswerChoice& choice, Json& json) const {
  json["has_new_line"] = choice.content.find('\n') != std::string::npos;
  json["truncated"] = false;  // nothing is ever cut
  json["stop_type"] = StopType(choice);
  json["stopping_word"] = choice.stop_text;
}

// The last event of a stream has no text: what it had came before.
Json LlamaFormat::Final(const ApiAnswer& answer, size_t index, Delivery delivery) const {
  const AnswerChoice& choice = answer.choices[index];
  const AnswerPrompt& prompt = answer.prompts[choice.prompt];
  const bool whole = delivery == Delivery::kWhole;
  Json json;
  json["index"] = index;
  json["content"] = whole ? choice.content : "";
  json["tokens"] = whole && options_.return_tokens ? Json(choice.tokens) : Json::array();
  json["id_slot"] = options_.slot;
  json["stop"] = true;
  json["model"] = answer.model;
  json["tokens_predicted"] = choice.completion_tokens;
  json["tokens_evaluated"] = prompt.tokens;
  json["tokens_cached"] = prompt.cached_tokens;
  json["generation_settings"] = options_.settings;
  json["prompt"] = answer.tokenizer->Decode(prompt.ids, SpecialText::kParse);
  AddEnd(choice, json);
  if (whole && options_.n_probs > 0)
    json["completion_probabilities"] =
        LlamaProbabilities(*answer.tokenizer, choice.sampled, options_.n_probs);
  json["timings"] = TimingsJson(prompt, choice);
  return Selected(std::move(json));
}

Json LlamaFormat::Whole(const ApiAnswer& answer) {
  if (answer.choices.size() == 1)
    return Final(answer, 0, Delivery::kWhole);
  Json list = Json::array();
  for (size_t i = 0; i < answer.choices.size(); ++i)
    list.push_back(Final(answer, i, Delivery::kWhole));
  return list;
}

void LlamaFormat::OnPiece(const ApiAnswer& answer, const AnswerPiece& piece,
                          AnswerChannel& channel) {
  const AnswerChoice& choice = answer.choices[piece.choice];
  const AnswerPrompt& prompt = answer.prompts[choice.prompt];
  std::string text;
  for (const MessageDelta& delta : piece.deltas)
    text += delta.text;
  Json json;
  json["index"] = piece.choice;
  json["content"] = std::move(text);
  json["tokens"] = piece.tokens;
  json["stop"] = false;
  json["id_slot"] = options_.slot;
  json["tokens_predicted"] = choice.tokens.size();
  json["tokens_evaluated"] = prompt.tokens;
  if (options_.n_probs > 0 && !piece.sampled.empty())
    json["completion_probabilities"] =
        LlamaProbabilities(*answer.tokenizer, piece.sampled, options_.n_probs);
  if (options_.timings_per_token)
    json["timings"] = TimingsJson(prompt, choice);
  channel.SendEvent("chunk", json);
}

void LlamaFormat::OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) {
  channel.SendEvent("chunk", Final(answer, choice, Delivery::kStream));
}

void AddTruncation(const SamplingParams& sampling, Json& json) {
  json["temperature"] = sampling.temperature;
  json["top_k"] = sampling.top_k;
  json["top_p"] = sampling.top_p;
  json["min_p"] = sampling.min_p;
  json["typical_p"] = sampling.typical_p;
  json["xtc_probability"] = sampling.xtc_probability;
  json["xtc_threshold"] = sampling.xtc_threshold;
  json["mirostat"] = sampling.mirostat;
  json["mirostat_tau"] = sampling.mirostat_tau;
  json["mirostat_eta"] = sampling.mirostat_eta;
}

void AddPenalties(const SamplingParams& sampling, Json& json) {
  json["repeat_last_n"] = sampling.penalty_last_n;
  json["repeat_penalty"] = sampling.repetition_penalty;
  json["presence_penalty"] = sampling.presence_penalty;
  json["frequency_penalty"] = sampling.frequency_penalty;
  json["dry_multiplier"] = sampling.dry_multiplier;
  json["dry_base"] = sampling.dry_base;
  json["dry_allowed_length"] = sampling.dry_allowed_length;
  json["dry_penalty_last_n"] = sampling.dry_penalty_last_n;
  json["dry_sequence_breakers"] = sampling.dry_sequence_breakers;
}

}  // namespace

Json GenerationSettings(const ServingRequest& request) {
  const SamplingParams& sampling = request.sampling;
  Json json;
  json["n_predict"] = request.max_tokens;
  json["max_tokens"] = request.max_tokens;
  json["seed"] = sampling.seed;
  AddTruncation(sampling, json);
  AddPenalties(sampling, json);
  json["logit_bias"] = Json::array();
  for (const LogitBias& entry : sampling.logit_bias)
    json["logit_bias"].push_back({{"token", entry.token}, {"bias", FiniteLogprob(entry.bias)}});
  json["stop"] = request.stop;
  json["ignore_eos"] = request.end_tokens == EndTokens::kIgnore;
  json["samplers"] = SamplerNames();
  json["n_probs"] = sampling.logprobs;
  return json;
}

std::unique_ptr<AnswerFormat> MakeLlamaFormat(LlamaOptions options) {
  return std::make_unique<LlamaFormat>(std::move(options));
}

}  // namespace tenon

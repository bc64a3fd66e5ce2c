// POST /v1/completions.
#include <fmt/format.h>

#include "frontend/server/api/answer_json.h"
#include "frontend/server/api/answer_shape.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/openai_fields.h"
#include "frontend/server/api/sampling_fields.h"

namespace tenon {
namespace {

struct CompletionOptions {
  OutputOptions output;
  bool echo = false;
  int32_t logprobs = -1;  // alternatives; -1: no logprobs at all
};

class CompletionFormat final : public AnswerFormat {
 public:
  explicit CompletionFormat(const CompletionOptions& options) : options_(options) {}

  Json Whole(const ApiAnswer& answer) override;
  void OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel& channel) override;
  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel& channel) override;
  void OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) override;
  void OnEnd(const ApiAnswer& answer, AnswerChannel& channel) override;

 private:
  // {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, filled token by token.
  struct Logprobs {
    Json json = {{"text_offset", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"tokens", Json::array()},
                 {"top_logprobs", Json::array()}};
  };

  Json Frame(const ApiAnswer& answer) const;
  Json Chunk(const ApiAnswer& answer, size_t choice, std::string text) const;
  void Add(const Tokenizer& tokenizer, const SampledToken& token, size_t& offset,
           Logprobs& out) const;
  void AddEcho(const ApiAnswer& answer, const AnswerPrompt& prompt, size_t& offset,
               Logprobs& out) const;
  std::string EchoText(const ApiAnswer& answer, const AnswerPrompt& prompt) const;
  bool has_logprobs() const { return options_.logprobs >= 0; }

  CompletionOptions options_;
  std::vector<size_t> offsets_;  // of each choice: code points written so far
};

Json CompletionFormat::Frame(const ApiAnswer& answer) const {
  Json json;
  json["id"] = "cmpl-" + answer.request_id;
  json["object"] = "text_completion";
  json["created"] = answer.created;
  json["model"] = answer.model;
  json["system_fingerprint"] = kSystemFingerprint;
  return json;
}

void CompletionFormat::Add(const Tokenizer& tokenizer, const SampledToken& token, size_t& offset,
                           Logprobs& out) const {
  out.json["tokens"].push_back(TokenLabel(tokenizer, token.token));
  out.json["token_logprobs"].push_back(FiniteLogprob(token.logprob));
  out.json["text_offset"].push_back(offset);
  Json top = Json::object();
  for (size_t i = 0; i < std::min(static_cast<size_t>(options_.logprobs), token.top.size()); ++i)
    top[TokenLabel(tokenizer, token.top[i].token)] = FiniteLogprob(token.top[i].logprob);
  out.json["top_logprobs"].push_back(std::move(top));
  offset += CountCodePoints(tokenizer.TokenBytes(token.token, SpecialText::kPlain));
}

// The prompt's own tokens; nothing comes before the first, so it has no probability.
void CompletionFormat::AddEcho(const ApiAnswer& answer, const AnswerPrompt& prompt, size_t& offset,
                               Logprobs& out) const {
  if (prompt.ids.empty())
    return;
  const int32_t first = prompt.ids.front();
  out.json["tokens"].push_back(TokenLabel(*answer.tokenizer, first));
  out.json["token_logprobs"].push_back(nullptr);
  out.json["top_logprobs"].push_back(nullptr);
  out.json["text_offset"].push_back(offset);
  offset += CountCodePoints(answer.tokenizer->TokenBytes(first, SpecialText::kPlain));
  for (const SampledToken& token : prompt.logprobs)
    Add(*answer.tokenizer, token, offset, out);
}

std::string CompletionFormat::EchoText(const ApiAnswer& answer, const AnswerPrompt& prompt) const {
  return answer.tokenizer->Decode(prompt.ids, SpecialText::kPlain);
}

Json CompletionFormat::Whole(const ApiAnswer& answer) {
  Json json = Frame(answer);
  json["choices"] = Json::array();
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    const AnswerChoice& choice = answer.choices[i];
    const AnswerPrompt& prompt = answer.prompts[choice.prompt];
    Logprobs logprobs;
    size_t offset = 0;
    if (has_logprobs() && options_.echo)
      AddEcho(answer, prompt, offset, logprobs);
    if (has_logprobs()) {
      for (const SampledToken& token : choice.sampled)
        Add(*answer.tokenizer, token, offset, logprobs);
    }
    Json entry;
    entry["text"] = (options_.echo ? EchoText(answer, prompt) : "") + choice.content;
    entry["index"] = i;
    entry["logprobs"] = has_logprobs() ? std::move(logprobs.json) : Json(nullptr);
    entry["finish_reason"] = FinishReasonName(choice.finish_reason);
    if (options_.output.return_tokens)
      entry["tokens"] = choice.tokens;
    json["choices"].push_back(std::move(entry));
  }
  json["usage"] = UsageJson(answer);
  json["timings"] = TimingsJson(answer.prompts.front(), answer.choices.front());
  return json;
}

Json CompletionFormat::Chunk(const ApiAnswer& answer, size_t choice, std::string text) const {
  Json json = Frame(answer);
  Json entry;
  entry["text"] = std::move(text);
  entry["index"] = choice;
  entry["logprobs"] = nullptr;
  entry["finish_reason"] = nullptr;
  json["choices"] = Json::array({std::move(entry)});
  if (options_.output.include_usage)
    json["usage"] = nullptr;
  return json;
}

void CompletionFormat::OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel& channel) {
  offsets_.resize(answer.choices.size());
  if (!options_.echo)
    return;
  const AnswerPrompt& echoed = answer.prompts[prompt];
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    if (answer.choices[i].prompt != prompt)
      continue;
    Json chunk = Chunk(answer, i, EchoText(answer, echoed));
    if (has_logprobs()) {
      Logprobs logprobs;
      AddEcho(answer, echoed, offsets_[i], logprobs);
      chunk["choices"][0]["logprobs"] = std::move(logprobs.json);
    }
    channel.SendEvent("chunk", chunk);
  }
}

void CompletionFormat::OnPiece(const ApiAnswer& answer, const AnswerPiece& piece,
                               AnswerChannel& channel) {
  std::string text;
  for (const MessageDelta& delta : piece.deltas)
    text += delta.text;
  const bool has_tokens = (has_logprobs() && !piece.sampled.empty()) ||
                          (options_.output.return_tokens && !piece.tokens.empty()) ||
                          options_.output.timings_per_token;
  if (text.empty() && !has_tokens)
    return;
  Json chunk = Chunk(answer, piece.choice, std::move(text));
  if (has_logprobs() && !piece.sampled.empty()) {
    Logprobs logprobs;
    for (const SampledToken& token : piece.sampled)
      Add(*answer.tokenizer, token, offsets_[piece.choice], logprobs);
    chunk["choices"][0]["logprobs"] = std::move(logprobs.json);
  }
  if (options_.output.return_tokens)
    chunk["choices"][0]["tokens"] = piece.tokens;
  if (options_.output.timings_per_token) {
    const AnswerChoice& choice = answer.choices[piece.choice];
    chunk["timings"] = TimingsJson(answer.prompts[choice.prompt], choice);
  }
  channel.SendEvent("chunk", chunk);
}

void CompletionFormat::OnChoiceEnd(const ApiAnswer& answer, size_t index, AnswerChannel& channel) {
  const AnswerChoice& choice = answer.choices[index];
  Json chunk = Chunk(answer, index, "");
  chunk["choices"][0]["finish_reason"] = FinishReasonName(choice.finish_reason);
  chunk["timings"] = TimingsJson(answer.prompts[choice.prompt], choice);
  channel.SendEvent("chunk", chunk);
}

void CompletionFormat::OnEnd(const ApiAnswer& answer, AnswerChannel& channel) {
  if (!options_.output.include_usage)
    return;
  Json chunk = Frame(answer);
  chunk["choices"] = Json::array();
  chunk["usage"] = UsageJson(answer);
  channel.SendEvent("chunk", chunk);
}

void ReadLogprobs(FieldReader& fields, CompletionOptions& options, ServingRequest& request) {
  const Json* given = fields.Any("logprobs");
  if (given == nullptr || *given == false)
    return;
  // llama-server's clients say true.
  options.logprobs = 1;
  if (*given != true)
    fields.Int("logprobs", options.logprobs, {0, kMaxTopLogprobs});
  request.sampling.logprobs = std::max(options.logprobs, 1);
  if (options.echo)
    request.prompt_logprobs = PromptLogprobs::kYes;
}

}  // namespace

Result<TextJob> ParseCompletion(const ApiContext& context, const Model& model, const Json& body) {
  // OpenAI's default length of a completion.
  constexpr int64_t kDefaultTokens = 16;
  TextJob job;
  ServingRequest request;
  request.max_tokens = kDefaultTokens;
  CompletionOptions options;
  FieldReader fields(body);
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, job));
  const Json* prompt = fields.Required("prompt");
  fields.Bool("echo", options.echo);
  ReadSamplingFields(fields, model.tokenizer(), request);
  ReadLogprobs(fields, options, request);
  ReadMaxTokens(fields, "max_tokens", request.max_tokens);
  ReadMaxTokens(fields, "n_predict", request.max_tokens);
  ReadOutputOptions(fields, options.output, job);
  AnswerShape shape;
  ReadFormat(fields, "response_format", shape);
  ReadShapeFields(fields, shape);
  fields.Refuse("suffix", "there is no filling in between", {""});
  fields.Refuse("best_of", "every choice is returned", {Json(request.choices)});
  RefuseNativeFields(fields);
  IgnoreOpenAiFields(fields);
  ReadPriority(fields, context, job);
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, model.tokenizer().vocab_size()));
  TENON_RETURN_IF_ERROR(ConstrainAnswer(context, model, {shape, {}, {}}, request));
  TENON_ASSIGN_OR_RETURN(auto prompts, ReadPrompts(model, *prompt, "prompt"));
  for (auto& tokens : prompts) {
    ServingRequest one = request;
    one.prompt = std::move(tokens);
    job.requests.push_back(std::move(one));
  }
  job.format = std::make_unique<CompletionFormat>(options);
  return job;
}

}  // namespace tenon

// llama-server's own POST /completion (also /completions) and /infill.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/server/api/answer_shape.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/infill_prompt.h"
#include "frontend/server/api/llama_format.h"
#include "frontend/server/api/openai_fields.h"
#include "frontend/server/api/sampling_fields.h"

namespace tenon {
namespace {

// What both endpoints read.
struct LlamaRequest {
  TextJob job;
  ServingRequest request;
  LlamaOptions options;
  AnswerShape shape;
};

// n_predict: -1 and -2 (until the context is full, which ends it here too) are no limit.
void ReadLength(FieldReader& fields, ServingRequest& request) {
  for (const char* name : {"max_tokens", "n_predict"})
    fields.Int(name, request.max_tokens, {-2, int64_t{1} << 31});
  request.max_tokens = std::max<int64_t>(request.max_tokens, -1);
}

void ReadProbabilities(FieldReader& fields, LlamaRequest& llama) {
  int32_t n_probs = 0;
  fields.Int("n_probs", n_probs, {0, kMaxTopLogprobs});
  llama.options.n_probs = static_cast<size_t>(n_probs);
  llama.request.sampling.logprobs = n_probs;
  fields.Refuse("post_sampling_probs", "probabilities are those of the model", {false});
}

// Fields of llama-server alone that only mean something we can't do.
void RefuseLlamaFields(FieldReader& fields) {
  fields.Refuse("t_max_predict_ms", "there is --request-timeout", {0, -1});
  fields.Refuse("t_max_prompt_ms", "there is --request-timeout", {0, -1});
  fields.Refuse("n_indent", "lines are not looked at", {0});
  fields.Refuse("image_data", "only text is supported", {Json::array()});
  fields.Refuse("multimodal_data", "only text is supported", {Json::array()});
  // How the answer is computed, not what it is.
  fields.Ignore({"speculative.n_max", "speculative.n_min", "speculative.p_min", "speculative.type",
                 "backend_sampling"});
}

Status ReadLlamaFields(FieldReader& fields, const ApiContext& context, const Model& model,
                       LlamaRequest& llama) {
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, llama.job));
  ReadSamplingFields(fields, model.tokenizer(), llama.request);
  ReadProbabilities(fields, llama);
  ReadLength(fields, llama.request);
  OutputOptions output;
  ReadOutputOptions(fields, output, llama.job);
  llama.options.return_tokens = output.return_tokens;
  llama.options.timings_per_token = output.timings_per_token;
  llama.options.slot = llama.request.slot;
  fields.Strings("response_fields", llama.options.response_fields);
  ReadFormat(fields, "response_format", llama.shape);
  ReadShapeFields(fields, llama.shape);
  RefuseLlamaFields(fields);
  IgnoreOpenAiFields(fields);
  RefusePriority(fields);
  return {};
}

Result<TextJob> Finish(LlamaRequest llama, const ApiContext& context, const Model& model,
                       std::vector<std::vector<int32_t>> prompts) {
  ServingRequest& request = llama.request;
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(request.sampling, model.tokenizer().vocab_size()));
  TENON_RETURN_IF_ERROR(ConstrainAnswer(context, model, {llama.shape, {}, {}}, request));
  llama.options.settings = GenerationSettings(request);
  for (auto& tokens : prompts) {
    llama.job.requests.push_back(request);
    llama.job.requests.back().prompt = std::move(tokens);
  }
  llama.job.format = MakeLlamaFormat(std::move(llama.options));
  return std::move(llama.job);
}

// {"prompt_string": "..."}, which carries images elsewhere, is its text.
Status TakePromptString(Json& prompt, const std::string& path) {
  if (!prompt.is_object())
    return {};
  FieldReader fields(prompt, path);
  std::string text;
  fields.Required("prompt_string");
  fields.String("prompt_string", text);
  fields.Refuse("multimodal_data", "only text is supported", {Json::array()});
  TENON_RETURN_IF_ERROR(fields.Finish());
  prompt = std::move(text);
  return {};
}

Result<std::vector<std::vector<int32_t>>> ReadLlamaPrompts(const Model& model, Json prompt) {
  TENON_RETURN_IF_ERROR(TakePromptString(prompt, "prompt"));
  for (size_t i = 0; prompt.is_array() && i < prompt.size(); ++i)
    TENON_RETURN_IF_ERROR(TakePromptString(prompt[i], fmt::format("prompt[{}]", i)));
  return ReadPrompts(model, prompt, "prompt");
}

}  // namespace

Result<TextJob> ParseLlamaCompletion(const ApiContext& context, const Model& model,
                                     const Json& body) {
  LlamaRequest llama;
  FieldReader fields(body);
  const Json* prompt = fields.Required("prompt");
  TENON_RETURN_IF_ERROR(ReadLlamaFields(fields, context, model, llama));
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_ASSIGN_OR_RETURN(auto prompts, ReadLlamaPrompts(model, *prompt));
  return Finish(std::move(llama), context, model, std::move(prompts));
}

Result<TextJob> ParseInfill(const ApiContext& context, const Model& model, const Json& body) {
  LlamaRequest llama;
  FieldReader fields(body);
  InfillText text;
  TENON_RETURN_IF_ERROR(ReadInfillText(fields, text));
  TENON_RETURN_IF_ERROR(ReadLlamaFields(fields, context, model, llama));
  TENON_RETURN_IF_ERROR(fields.Finish());
  TENON_ASSIGN_OR_RETURN(auto tokens, InfillTokens(model.tokenizer(), text));
  return Finish(std::move(llama), context, model, {std::move(tokens)});
}

}  // namespace tenon

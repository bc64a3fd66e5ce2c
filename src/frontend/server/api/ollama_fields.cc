#include "frontend/server/api/ollama_fields.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "frontend/server/api/openai_fields.h"
#include "frontend/server/api/sampling_fields.h"

namespace tenon {
namespace {

int64_t Nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

}  // namespace

Status ReadOllamaOptions(FieldReader& fields, const Model& model, ServingRequest& request) {
  const Json* given = fields.Object("options");
  const Json none = Json::object();
  FieldReader options(given == nullptr ? none : *given, "options");
  SamplingParams& sampling = request.sampling;
  int64_t context = model.context_tokens();
  // -2 fills the context: the same as no limit here.
  options.Int("num_predict", request.max_tokens, {-2, int64_t{1} << 31});
  request.max_tokens = std::max<int64_t>(request.max_tokens, -1);
  options.Int("num_ctx", context, {1, model.context_tokens()});
  options.Float("temperature", sampling.temperature);
  ReadTopK(options, sampling);
  options.Float("top_p", sampling.top_p);
  options.Float("min_p", sampling.min_p);
  options.Float("typical_p", sampling.typical_p);
  options.Float("repeat_penalty", sampling.repetition_penalty);
  options.Int("repeat_last_n", sampling.penalty_last_n, {-1, 1 << 30});
  options.Float("presence_penalty", sampling.presence_penalty);
  options.Float("frequency_penalty", sampling.frequency_penalty);
  options.Int("mirostat", sampling.mirostat, {0, 2});
  options.Float("mirostat_tau", sampling.mirostat_tau);
  options.Float("mirostat_eta", sampling.mirostat_eta);
  ReadSeed(options, sampling);
  CheckSampling(options, model.tokenizer(), sampling);
  options.Strings("stop", request.stop);
  options.Refuse("tfs_z", "there is no such filter", {1, 1.0});
  options.Refuse("num_keep", "the context is never shifted", {0, 4, 5});
  options.Refuse("penalize_newline", "penalties see every token", {true});
  // How the machine is used is decided when the server starts.
  options.Ignore({"num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa",
                  "low_vram", "f16_kv", "vocab_only", "num_gqa"});
  return options.Finish();
}

Status ReadOllamaFields(FieldReader& fields, const ApiContext& context, const Model& model,
                        TextJob& job, ServingRequest& request) {
  std::string name;
  fields.Required("model");
  fields.String("model", name);
  if (!fields.ok())
    return fields.Finish();
  TENON_ASSIGN_OR_RETURN(job.model, context.ResolveModelName(name));
  job.delivery = Delivery::kStream;
  ReadDelivery(fields, job);
  TENON_RETURN_IF_ERROR(ReadOllamaOptions(fields, model, request));
  fields.Refuse("logprobs", "use /v1/chat/completions", {false});
  fields.Refuse("top_logprobs", "use /v1/chat/completions", {0});
  // What does not fit is refused, whatever truncate and shift say.
  fields.Ignore({"keep_alive", "truncate", "shift"});
  return {};
}

void ReadThink(FieldReader& fields, Json& variables) {
  const Json* think = fields.Any("think");
  if (think == nullptr)
    return;
  if (think->is_boolean())
    variables["enable_thinking"] = *think;
  else if (think->is_string())
    variables["reasoning_effort"] = *think;
  else
    fields.Fail("think", "expected a boolean or a level");
}

std::string OllamaTime(int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000000000Z", fmt::gmtime(unix_seconds));
}

Json OllamaFrame(const ApiAnswer& answer) {
  Json json;
  json["model"] = answer.model;
  json["created_at"] = OllamaTime(UnixSeconds());
  return json;
}

void AddOllamaEnd(const ApiAnswer& answer, Json& json) {
  const RequestTimings timings = answer.timings();
  json["done"] = true;
  json["done_reason"] = FinishReasonName(answer.choices.front().finish_reason);
  json["total_duration"] = Nanoseconds(timings.total_s);
  json["load_duration"] = 0;
  json["prompt_eval_count"] = answer.prompt_tokens();
  json["prompt_eval_duration"] = Nanoseconds(timings.prefill_s);
  json["eval_count"] = answer.completion_tokens();
  json["eval_duration"] = Nanoseconds(timings.decode_s);
}

}  // namespace tenon

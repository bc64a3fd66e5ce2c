#include "frontend/server/api/openai_fields.h"

#include <fmt/format.h>

namespace tenon {

Status ReadModelName(FieldReader& fields, const ApiContext& context, TextJob& job) {
  std::string model;
  fields.String("model", model);
  if (!fields.ok())
    return fields.Finish();
  TENON_ASSIGN_OR_RETURN(job.model, context.ResolveModelName(model));
  return {};
}

void ReadDelivery(FieldReader& fields, TextJob& job) {
  bool stream = job.delivery == Delivery::kStream;
  fields.Bool("stream", stream);
  job.delivery = stream ? Delivery::kStream : Delivery::kWhole;
}

void ReadOutputOptions(FieldReader& fields, OutputOptions& output, TextJob& job) {
  ReadDelivery(fields, job);
  if (const Json* given = fields.Object("stream_options"); given != nullptr) {
    FieldReader options(*given, "stream_options");
    options.Bool("include_usage", output.include_usage);
    options.Ignore({"include_obfuscation"});
    options.Refuse("continuous_usage_stats", "usage comes once, at the end", {false});
    fields.Take(options.Finish());
    if (job.delivery != Delivery::kStream)
      fields.Fail("stream_options", "needs \"stream\": true");
  }
  fields.Bool("return_tokens", output.return_tokens);
  fields.Bool("timings_per_token", output.timings_per_token);
  fields.String("cache_salt", job.salt);
}

void RefuseNativeFields(FieldReader& fields) {
  fields.Refuse("n_probs", "use logprobs and top_logprobs", {0});
  fields.Refuse("response_fields", "answers are always whole", {Json::array()});
}

void IgnoreOpenAiFields(FieldReader& fields) {
  fields.Ignore({"user", "metadata", "store", "service_tier", "safety_identifier",
                 "prompt_cache_key", "prompt_cache_retention"});
}

void ReadPriority(FieldReader& fields, const ApiContext& context, TextJob& job) {
  if (context.options().client_priority == ClientPriority::kRefused)
    return RefusePriority(fields);
  fields.Int("priority", job.priority, {-kMaxPriority, kMaxPriority});
}

void RefusePriority(FieldReader& fields) {
  fields.Refuse("priority", "the queue is fair to all (the server's --client-priority is off)",
                {0});
}

}  // namespace tenon

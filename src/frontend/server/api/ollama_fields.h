// Fields and values that Ollama's endpoints share.
#pragma once

#include <string>

#include "frontend/server/api/answer.h"
#include "frontend/server/api/api_context.h"
#include "frontend/server/api/field_reader.h"
#include "frontend/server/api/text_job.h"

namespace tenon {

// model, stream (on unless said), options, keep_alive, format.
Status ReadOllamaFields(FieldReader& fields, const ApiContext& context, const Model& model,
                        TextJob& job, ServingRequest& request);

// "options": how to sample, under Ollama's names.
Status ReadOllamaOptions(FieldReader& fields, const Model& model, ServingRequest& request);

// Reasoning: "think" true or a level, or false.
void ReadThink(FieldReader& fields, Json& variables);

// "2026-01-31T12:00:00.000000000Z".
std::string OllamaTime(int64_t unix_seconds);

// {"model", "created_at", "done"}, the rest comes from the caller.
Json OllamaFrame(const ApiAnswer& answer);
// done_reason, counts and durations in nanoseconds.
void AddOllamaEnd(const ApiAnswer& answer, Json& json);

}  // namespace tenon

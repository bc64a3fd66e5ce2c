// Fields that OpenAI's text endpoints have in common.
#pragma once

#include "frontend/server/api/api_context.h"
#include "frontend/server/api/field_reader.h"
#include "frontend/server/api/text_job.h"

namespace tenon {

// More alternatives than anyone looks at; each costs room in every chunk.
inline constexpr int32_t kMaxTopLogprobs = 256;

// Of `priority`, either way: room for any scale that clients use.
inline constexpr int32_t kMaxPriority = 1'000'000;

struct OutputOptions {
  bool include_usage = false;
  bool return_tokens = false;
  bool timings_per_token = false;
};

// model: kNotFound when it is another one.
Status ReadModelName(FieldReader& fields, const ApiContext& context, TextJob& job);

// stream; without it the delivery stays as it is.
void ReadDelivery(FieldReader& fields, TextJob& job);

// stream, stream_options, return_tokens, timings_per_token, cache_salt.
void ReadOutputOptions(FieldReader& fields, OutputOptions& output, TextJob& job);

// Fields of llama-server's own endpoints that have other names here.
void RefuseNativeFields(FieldReader& fields);

// user, metadata, store and others that change nothing in the answer.
void IgnoreOpenAiFields(FieldReader& fields);

// priority, where the server lets clients choose it; else only 0.
void ReadPriority(FieldReader& fields, const ApiContext& context, TextJob& job);
// Where no order can be chosen.
void RefusePriority(FieldReader& fields);

}  // namespace tenon

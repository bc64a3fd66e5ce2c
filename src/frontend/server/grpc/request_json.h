// From the messages of tenon.proto to the JSON bodies of the HTTP API, which have the same field
// names.
#pragma once

#include "frontend/server/api/json.h"
#include "tenon/v1/tenon.pb.h"

namespace tenon {

// Bodies of /v1/completions, /v1/chat/completions and of the "input" of /v1/embeddings.
Json ToJson(const v1::GenerateRequest& request);
Json ToJson(const v1::ChatRequest& request);
Json InputsJson(const v1::EmbedRequest& request);

}  // namespace tenon

// StartEmbeddings: runs texts through the model for their vectors and sends one JSON answer.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "frontend/server/api/answer_channel.h"
#include "frontend/server/api/api_context.h"
#include "frontend/server/api/json.h"

namespace tenon {

struct EmbeddingJob {
  std::vector<std::vector<int32_t>> inputs;
  // Makes the body from the vectors (not normalised, in the order of the inputs) and the number of
  // tokens. Called on the engine's thread.
  std::function<Json(std::vector<std::vector<float>>, int64_t)> finish;
};

// Returns at once; the channel gets the answer or an error, and the request is logged.
void StartEmbeddings(ApiContext& context, ServingEngine& engine, Caller caller, EmbeddingJob job,
                     std::shared_ptr<AnswerChannel> channel);

// Divides by the Euclidean length; a vector of zeros stays.
void Normalise(std::vector<float>& vector);

}  // namespace tenon

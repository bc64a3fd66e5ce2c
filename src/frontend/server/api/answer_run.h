// StartAnswer: runs a TextJob on the engine and sends what comes of it.
#pragma once

#include <memory>

#include "frontend/server/api/answer_channel.h"
#include "frontend/server/api/api_context.h"
#include "frontend/server/api/text_job.h"

namespace tenon {

// Returns at once; whatever happens, the channel gets an answer or an error, and the request is
// logged. The engine's work ends when the client goes.
void StartAnswer(ApiContext& context, ServingEngine& engine, Caller caller, TextJob job,
                 std::shared_ptr<AnswerChannel> channel);

// An answer that others may end than its channel. Any thread.
class AnswerHandle {
 public:
  virtual ~AnswerHandle() = default;
  // The client wants no more of it, and is told so by an error.
  virtual void Cancel() = 0;
  // The client is gone.
  virtual void Abandon() = 0;
};
std::shared_ptr<AnswerHandle> StartCancellableAnswer(ApiContext& context, ServingEngine& engine,
                                                     Caller caller, TextJob job,
                                                     std::shared_ptr<AnswerChannel> channel);

}  // namespace tenon

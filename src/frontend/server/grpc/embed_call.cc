#include "frontend/server/grpc/embed_call.h"

#include <utility>

#include "frontend/server/grpc/grpc_status.h"

namespace tenon {

std::shared_ptr<EmbedCall> EmbedCall::Create(v1::EmbedResponse& response) {
  std::shared_ptr<EmbedCall> call(new EmbedCall(response));
  call->self_ = call;
  return call;
}

EmbeddingJob EmbedCall::MakeJob(std::string model, std::vector<std::vector<int32_t>> inputs) {
  model_ = std::move(model);
  EmbeddingJob job;
  job.inputs = std::move(inputs);
  job.finish = [self = shared_from_this()](std::vector<std::vector<float>> vectors,
                                           int64_t tokens) {
    self->vectors_ = std::move(vectors);
    self->tokens_ = tokens;
    return Json(nullptr);
  };
  return job;
}

void EmbedCall::Fill() {
  response_.set_model(std::move(model_));
  response_.set_prompt_tokens(tokens_);
  for (std::vector<float>& vector : vectors_) {
    Normalise(vector);
    response_.add_embeddings()->mutable_values()->Add(vector.begin(), vector.end());
  }
}

void EmbedCall::SendWhole(const Json&) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true))
      return;
    Fill();
  }
  Finish(grpc::Status::OK);
}

void EmbedCall::SendError(const ApiError& error) {
  End(ToGrpcStatus(error));
}

void EmbedCall::End(grpc::Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true))
      return;
  }
  Finish(std::move(status));
}

void EmbedCall::OnClose(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) {
      on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

void EmbedCall::OnCancel() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    callback = std::exchange(on_close_, nullptr);
  }
  if (callback)
    callback();
  End(grpc::Status::CANCELLED);
}

void EmbedCall::OnDone() {
  std::shared_ptr<EmbedCall> self;
  const std::lock_guard lock(mutex_);
  self = std::move(self_);
  // `lock` goes before `self`, which may be the last reference.
}

}  // namespace tenon

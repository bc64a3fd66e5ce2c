#include "frontend/server/grpc/answer_stream.h"

#include <utility>

namespace tenon {

std::shared_ptr<AnswerStream> AnswerStream::Create(size_t max_backlog_bytes) {
  std::shared_ptr<AnswerStream> stream(new AnswerStream(max_backlog_bytes));
  stream->self_ = stream;
  return stream;
}

void AnswerStream::Push(v1::AnswerEvent event) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    if (end_.has_value())
      return;
    backlog_bytes_ += event.ByteSizeLong();
    events_.push_back(std::move(event));
    if (backlog_bytes_ > max_backlog_bytes_)
      Close({grpc::StatusCode::RESOURCE_EXHAUSTED, "the client reads too slowly"}, action);
    Advance(action);
  }
  Run(std::move(action));
}

void AnswerStream::End(grpc::Status status) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    if (end_.has_value())
      return;
    end_ = std::move(status);
    on_close_ = nullptr;
    Advance(action);
  }
  Run(std::move(action));
}

void AnswerStream::SetOnClose(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      if (!end_.has_value())
        on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

void AnswerStream::OnWriteDone(bool ok) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    backlog_bytes_ -= events_.front().ByteSizeLong();
    events_.pop_front();
    if (!ok)
      Close(grpc::Status::CANCELLED, action);
    Advance(action);
  }
  Run(std::move(action));
}

void AnswerStream::OnCancel() {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    Close(grpc::Status::CANCELLED, action);
    Advance(action);
  }
  Run(std::move(action));
}

void AnswerStream::OnDone() {
  std::shared_ptr<AnswerStream> self;
  const std::lock_guard lock(mutex_);
  self = std::move(self_);
  // `lock` goes before `self`, which may be the last reference.
}

void AnswerStream::Close(grpc::Status status, Action& action) {
  // The event that is being written belongs to gRPC until OnWriteDone.
  while (events_.size() > (writing_ ? 1U : 0U)) {
    backlog_bytes_ -= events_.back().ByteSizeLong();
    events_.pop_back();
  }
  if (end_.has_value())
    return;
  end_ = std::move(status);
  closed_ = true;
  action.on_close = std::exchange(on_close_, nullptr);
}

void AnswerStream::Advance(Action& action) {
  if (writing_ || finished_)
    return;
  if (!events_.empty()) {
    writing_ = true;
    action.write = &events_.front();
  } else if (end_.has_value()) {
    finished_ = true;
    action.finish = end_;
  }
}

void AnswerStream::Run(Action action) {
  if (action.write != nullptr)
    StartWrite(action.write);
  if (action.finish.has_value())
    Finish(*std::move(action.finish));
  if (action.on_close)
    action.on_close();
}

}  // namespace tenon

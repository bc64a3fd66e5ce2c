// AnswerStream: one streamed call. Events wait in a queue until the client takes them, so that the
// engine's thread never waits for a client; a client that is too far behind loses the call.
//
// Threading: Push, End and SetOnClose from any thread; the rest is gRPC's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "tenon/v1/tenon.pb.h"

namespace tenon {

class AnswerStream final : public grpc::ServerWriteReactor<v1::AnswerEvent> {
 public:
  // Lives at least until gRPC is done with the call; others who hold it may keep it longer.
  static std::shared_ptr<AnswerStream> Create(size_t max_backlog_bytes);

  void Push(v1::AnswerEvent event);
  // After all events. Later calls do nothing.
  void End(grpc::Status status);
  // Called once, when the call ends before End: by the client, its deadline, or its backlog.
  void SetOnClose(std::function<void()> callback);

  void OnWriteDone(bool) override;  // whether the event went out
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit AnswerStream(size_t max_backlog_bytes) : max_backlog_bytes_(max_backlog_bytes) {}

  // What to do once the lock is free: gRPC may call back before its functions return.
  struct Action {
    const v1::AnswerEvent* write = nullptr;
    std::optional<grpc::Status> finish;
    std::function<void()> on_close;
  };
  // REQUIRES: the lock is held.
  void Advance(Action& action);
  void Close(grpc::Status status, Action& action);
  void Run(Action action);

  const size_t max_backlog_bytes_;
  std::mutex mutex_;  // guards all below
  std::shared_ptr<AnswerStream> self_;
  std::deque<v1::AnswerEvent> events_;  // the first one is being written while writing_
  size_t backlog_bytes_ = 0;
  bool writing_ = false;
  bool closed_ = false;    // before its end
  bool finished_ = false;  // Finish was called
  std::optional<grpc::Status> end_;
  std::function<void()> on_close_;
};

}  // namespace tenon

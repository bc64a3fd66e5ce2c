// Exchange: one request's answer, between the handler that writes it (any thread) and the
// connection that sends it (its strand).
//
// Knows no sockets: the connection is behind ExchangeOwner. Holding an Exchange keeps the
// connection's memory, not its socket.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "frontend/server/http/answer_text.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// The connection, as the exchange sees it. All functions from any thread; none calls back.
class ExchangeOwner {
 public:
  virtual ~ExchangeOwner() = default;
  virtual void WakeSender() = 0;  // output is there, or the answer ended
  virtual void CloseSoon() = 0;   // the client must not wait for the rest
  virtual void StartPings(std::chrono::milliseconds interval) = 0;
  virtual bool stopping() const = 0;  // the server drains: no connection is kept
};

class Exchange {
 public:
  enum class Gone : uint8_t { kHalfClosed, kClosed };

  Exchange(std::shared_ptr<ExchangeOwner> owner, AnswerForm form, size_t max_backlog_bytes);

  // The handler's side: see ResponseWriter.
  void Send(HttpResponse response);
  void BeginStream(int status, std::string content_type, HttpHeaders headers);
  void Write(std::string_view chunk);
  void End();
  void KeepAlive(std::string ping, std::chrono::milliseconds interval);
  void OnClose(std::function<void()> callback);
  size_t backlog() const;
  void Abandon();  // the handler holds no writer any more

  // The connection's side.
  std::string TakeOutput();
  void OnSent(size_t bytes);
  bool finished() const;  // the answer ended and all of it was taken
  bool keeps_connection() const;
  // kHalfClosed: the client sends no more. It counts as gone if the handler asked to be told; one
  // that did not may still answer. True if the connection is of no more use.
  bool OnGone(Gone gone);
  // Queues the ping if nothing was written since `interval`. Returns when to look again.
  std::chrono::milliseconds Ping();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { kOpen, kStreaming, kEnded };

  void AppendLocked(std::string_view bytes);
  void WriteLocked(std::string_view chunk);
  void SendLocked(const HttpResponse& response);
  std::function<void()> EndLocked();

  const std::shared_ptr<ExchangeOwner> owner_;
  const size_t max_backlog_bytes_;
  mutable std::mutex mutex_;
  AnswerForm form_;
  State state_ = State::kOpen;
  bool half_closed_ = false;
  bool closed_ = false;
  bool wake_posted_ = false;
  std::string output_;       // not yet taken by the connection
  size_t unsent_bytes_ = 0;  // output_ and what the connection took but has not sent
  std::function<void()> on_close_;
  std::string ping_;
  std::chrono::milliseconds ping_interval_{0};
  Clock::time_point last_write_;
};

// The writer that handlers hold; the exchange learns when the last reference goes.
std::shared_ptr<ResponseWriter> MakeWriter(std::shared_ptr<Exchange> exchange);

}  // namespace tenon

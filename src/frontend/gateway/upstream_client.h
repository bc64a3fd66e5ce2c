// UpstreamClient: asks replicas over HTTP/1.1, TLS included, and keeps connections for the next
// request. Answers come piece by piece.
//
// Threading: everything on the loop.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "frontend/gateway/event_loop.h"
#include "frontend/gateway/gateway_config.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

struct UpstreamRequest {
  ReplicaAddress replica;
  std::string method;
  std::string target;   // path and query; the replica's path prefix goes before it
  HttpHeaders headers;  // without those of the connection (Host, Content-Length, ...)
  std::string body;
  std::chrono::milliseconds connect_timeout{3000};
  std::chrono::milliseconds answer_timeout{600'000};  // until the answer's head
  std::chrono::milliseconds stream_timeout{120'000};  // between two pieces after it
};

// Receives one answer: OnHead, OnBody any number of times, then OnEnd; or OnFailure at any point,
// last. Never called after UpstreamCall::Cancel.
class UpstreamSink {
 public:
  virtual ~UpstreamSink() = default;
  virtual void OnHead(int status, HttpHeaders headers) = 0;
  virtual void OnBody(std::string_view bytes) = 0;
  virtual void OnEnd() = 0;
  virtual void OnFailure(const Error& error) = 0;
};

class UpstreamCall {
 public:
  virtual ~UpstreamCall() = default;
  // Closes the connection, so that the replica sees that nobody listens.
  virtual void Cancel() = 0;
};

class UpstreamClient {
 public:
  explicit UpstreamClient(EventLoop& loop);
  ~UpstreamClient();
  UpstreamClient(const UpstreamClient&) = delete;
  UpstreamClient& operator=(const UpstreamClient&) = delete;

  // A kept connection that turns out to be closed is replaced by a new one without a word.
  std::shared_ptr<UpstreamCall> Start(UpstreamRequest request, std::shared_ptr<UpstreamSink> sink);

 private:
  class Call;
  class Pool;
  EventLoop& loop_;
  const std::shared_ptr<Pool> pool_;
};

}  // namespace tenon

// A server that looks like `tenon serve` from outside and does what a test tells it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "frontend/server/http/http_server.h"

namespace tenon::test {

class FakeReplica {
 public:
  explicit FakeReplica(std::string model, std::string key = {});
  ~FakeReplica();

  std::string url() const;
  void Kill();     // connections end in the middle of what they do
  void Restart();  // on the same port

  // How requests are answered from now on. Answers name the replica's port as their content.
  enum class Mode : int {
    kAnswer,      // a document, or with "stream" eight events
    kHold,        // nothing: the test writes the answer
    kBusy,        // 503
    kDropStream,  // two events, then the connection ends
    kDropPing,    // a comment, then the connection ends
    kDrop,        // the connection ends after the request
  };
  std::atomic<Mode> mode = Mode::kAnswer;
  std::atomic<bool> healthy = true;

  int requests() const { return requests_; }
  int clients_gone() const { return clients_gone_; }
  std::shared_ptr<ResponseWriter> WaitForHeld();
  HttpRequest last_request();

 private:
  using Writer = std::shared_ptr<ResponseWriter>;
  Router MakeRouter();
  void Answer(HttpRequest request, const Writer& writer);
  void Stream(const Writer& writer, int events);

  const std::string model_;
  const std::string key_;
  uint16_t port_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::atomic<int> requests_ = 0;
  std::atomic<int> clients_gone_ = 0;
  std::mutex mutex_;
  std::condition_variable held_changed_;
  std::vector<Writer> held_;
  HttpRequest last_request_;
  std::vector<std::thread> streams_;
};

// True as soon as `condition` is; false if it takes longer than any passing test does.
template <class Condition>
bool Eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace tenon::test

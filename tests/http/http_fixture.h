// A server with small handlers, one for each thing that a handler can do.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/server/http/http_server.h"
#include "http/raw_client.h"

namespace tenon::test {

// Counts, and lets a test wait for a count.
class Counter {
 public:
  void Add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  // False if it takes longer than any passing test does.
  bool Reaches(int wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return count_ >= wanted; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

class HttpFixture : public ::testing::Test {
 protected:
  void TearDown() override;
  void StartServer(const HttpServerOptions& options = {});
  RawAnswer Ask(std::string_view request);
  std::shared_ptr<ResponseWriter> HeldWriter();

  std::unique_ptr<HttpServer> server_;
  Counter held_;    // requests to /hold
  Counter closed_;  // clients of /hold that went away
  Counter sockets_closed_;
  std::atomic<bool> socket_busy_ = false;

 private:
  friend class EchoSocket;
  Router MakeRouter();
  void Hold(const std::shared_ptr<ResponseWriter>& writer);

  std::mutex mutex_;
  std::vector<std::shared_ptr<ResponseWriter>> writers_;
};

}  // namespace tenon::test

// WorkQueue: a thread for requests that take long to read, so that /health, short requests and the
// events of streams do not wait for a text of megabytes or a schema of thousands of branches.
//
// Owns its thread, which sleeps while there is nothing. Threading: any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon {

// A larger body is read there: its text may take seconds to become tokens, its schema to become a
// grammar.
inline constexpr size_t kLargeBody = 32 << 10;

class WorkQueue {
 public:
  WorkQueue() = default;
  ~WorkQueue() { Stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False, without running it, when too much waits already or the queue was stopped. `work` must
  // not throw.
  bool Post(std::function<void()> work);
  // Waits for what runs and drops what waits. Nothing is taken afterwards.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // started by the first work
};

}  // namespace tenon

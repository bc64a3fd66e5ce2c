// ShutdownSignal: SIGINT and SIGTERM as an event. The first one asks for an orderly end, a second
// one ends the process at once; before SetReady the first one does, as there is nothing to finish.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tenon {

class ShutdownSignal {
 public:
  // Blocks both signals in this thread and those it starts from now on, and waits for them in one
  // of its own. One object at a time.
  ShutdownSignal();
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  void SetReady() { ready_ = true; }
  // Returns after the first signal.
  void Wait();

 private:
  void Listen();

  std::atomic<bool> ready_ = false;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;
  std::thread thread_;
};

}  // namespace tenon

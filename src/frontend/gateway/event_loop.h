// EventLoop: the gateway's one thread. All of its state lives there, so nothing of it has a lock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace tenon {

class EventLoop {
 public:
  using Task = std::function<void()>;

  EventLoop();
  // Stops; tasks that did not run are dropped.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // From any thread.
  void Post(Task task);
  void PostAfter(std::chrono::milliseconds delay, Task task);
  // Runs `task` on the loop and waits for it. Not from the loop itself.
  void Run(const Task& task);
  // After this no task runs.
  void Stop();

  boost::asio::io_context& context();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tenon

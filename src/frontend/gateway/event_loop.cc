#include "frontend/gateway/event_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "base/log.h"

namespace tenon {

namespace asio = boost::asio;

struct EventLoop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;

  void Run() {
    for (;;) {
      try {
        context.run();
        return;
      } catch (const std::exception& error) {
        Log(LogLevel::kError, "gateway: {}", error.what());
      }
    }
  }
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

EventLoop::~EventLoop() {
  Stop();
}

void EventLoop::Post(Task task) {
  asio::post(impl_->context, std::move(task));
}

void EventLoop::PostAfter(std::chrono::milliseconds delay, Task task) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->context, delay);
  timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
    if (!error)
      task();
  });
}

void EventLoop::Run(const Task& task) {
  std::promise<void> done;
  Post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

void EventLoop::Stop() {
  impl_->context.stop();
  if (impl_->thread.joinable())
    impl_->thread.join();
}

boost::asio::io_context& EventLoop::context() {
  return impl_->context;
}

}  // namespace tenon

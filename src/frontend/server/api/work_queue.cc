#include "frontend/server/api/work_queue.h"

#include <utility>

namespace tenon {
namespace {

// Each holds its request's body.
constexpr size_t kMaxWaiting = 64;

}  // namespace

bool WorkQueue::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || waiting_.size() >= kMaxWaiting)
      return false;
    waiting_.push_back(std::move(work));
    if (!thread_.joinable())
      thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_one();
  return true;
}

void WorkQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_)
      return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before the lock is taken
    lock.lock();
  }
}

void WorkQueue::Stop() {
  std::deque<std::function<void()>> dropped;
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable())
    thread.join();
}

}  // namespace tenon

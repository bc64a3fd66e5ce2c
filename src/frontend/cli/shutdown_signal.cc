#include "frontend/cli/shutdown_signal.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>

namespace tenon {
namespace {

// What a shell reports for a process that a signal ended.
constexpr int kSignalExitBase = 128;

sigset_t ShutdownSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t signals = ShutdownSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Listen(); });
}

ShutdownSignal::~ShutdownSignal() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes sigwait
  thread_.join();
}

void ShutdownSignal::Listen() {
  const sigset_t signals = ShutdownSignals();
  for (int seen = 0;; ++seen) {
    int number = 0;
    sigwait(&signals, &number);
    if (stopping_)
      return;
    if (!ready_)
      std::_Exit(0);
    if (seen > 0)
      std::_Exit(kSignalExitBase + number);
    const std::lock_guard lock(mutex_);
    signalled_ = true;
    changed_.notify_all();
  }
}

void ShutdownSignal::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return signalled_; });
}

}  // namespace tenon

// ThreadPool: the persistent threads that a step's kernels run on.
//
// The calling thread is worker 0, so a pool of one starts no thread. Workers spin briefly between
// two runs and then sleep on a futex: an idle pool uses no CPU. One Run at a time; Run is called
// from one thread only. Owns its threads and joins them when destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

#include "base/result.h"

namespace tenon {

class ThreadPool {
 public:
  // `threads` workers; 0 means DefaultThreadCount().
  static Result<std::unique_ptr<ThreadPool>> Create(int threads);
  virtual ~ThreadPool() = default;

  virtual int threads() const = 0;

  // Non-owning reference to a callable (task index begin, end, worker); alive during the call only.
  using RangeFn = void (*)(void* context, int64_t begin, int64_t end, int worker);

  // Splits tasks 0..count-1 into contiguous ranges of at least `grain` and runs fn on each;
  // returns when all have ended. Ranges go to workers dynamically, so a worker that lost its core
  // delays one range only. No allocation.
  virtual void Run(int64_t count, int64_t grain, RangeFn fn, void* context) = 0;

  // The same for a lambda: void(int64_t begin, int64_t end, int worker).
  template <class F>
  void ParallelFor(int64_t count, int64_t grain, F&& body) {
    Run(
        count, grain,
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<std::remove_reference_t<F>*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
};

}  // namespace tenon

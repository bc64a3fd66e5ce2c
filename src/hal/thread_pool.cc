#include "hal/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "hal/cpu/spin_pause.h"
#include "hal/topology.h"

namespace tenon {
namespace {

// More than any machine has cores; a larger number is a mistake in a flag.
constexpr int kMaxThreads = 1024;

// Ranges per worker and run. A worker that loses its core holds up one of them, a quarter of its
// share; more would cost claims without helping.
constexpr int64_t kRangesPerWorker = 4;

// How long a worker waits awake for the next run: longer than the serial gaps between two kernels
// of a step, shorter than what a wake-up by the system costs a few times over.
constexpr std::chrono::microseconds kSpinTime{50};

// Pauses between two looks at the clock; a pause is 10 to 40 ns.
constexpr int kPausesPerClockRead = 16;

// Sleeps until woken, unless `word` no longer holds `seen`. May return early.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word, int64_t count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, static_cast<int>(count), nullptr, nullptr, 0);
}

enum class SpinMode { kSpin, kSleepAtOnce };

// Spins for at most kSpinTime until done(); returns what done() said last.
template <class Done>
bool SpinUntil(SpinMode mode, Done done) {
  if (done())
    return true;
  if (mode == SpinMode::kSleepAtOnce)
    return false;
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      SpinPause();
      if (done())
        return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// CPUs in the order in which workers take them: one hardware thread of each performance core, then
// their siblings, then the efficiency cores; within these node by node.
std::vector<CpuCore> PlacementOrder(const Topology& topology) {
  std::vector<std::pair<int, CpuCore>> ranked;
  for (const CpuCore& core : topology.cores) {
    const int slow = IsPerformanceCore(topology, core) ? 0 : 2;
    ranked.emplace_back(slow + (core.cpu == core.core ? 0 : 1), core);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.node) < std::pair(b.first, b.second.node);
  });
  std::vector<CpuCore> order;
  for (const auto& [rank, core] : ranked)
    order.push_back(core);
  return order;
}

// The CPUs that one worker may run on; empty: as the system likes.
std::vector<int> PlacementOf(const Topology& topology, int threads, int worker) {
  const std::vector<CpuCore> order = PlacementOrder(topology);
  const int performance_cores = DefaultThreadCount({topology.cores, 0, 0, {}});
  if (static_cast<size_t>(threads) > order.size())
    return {};
  if (threads >= performance_cores) {
    // The pool's CPUs on the worker's memory node, not one of its own: when another process takes a
    // core, the system moves the worker to one where another worker sleeps. A worker tied to the
    // lost core would hold up the run for the whole of the other process's time slice.
    std::vector<int> shared;
    for (int i = 0; i < threads; ++i) {
      const CpuCore& core = order[static_cast<size_t>(i)];
      if (core.node == order[static_cast<size_t>(worker)].node)
        shared.push_back(core.cpu);
    }
    return shared;
  }
  // A pool that leaves cores free shares the machine: pinned one to one, two such processes would
  // meet on the same first cores.
  std::vector<int> fast;
  for (const CpuCore& core : topology.cores) {
    if (IsPerformanceCore(topology, core))
      fast.push_back(core.cpu);
  }
  return fast;
}

// A refused pin only costs speed, so the result is not looked at.
void PinThisThread(const std::vector<int>& cpus) {
  if (cpus.empty())
    return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) {
    if (cpu < CPU_SETSIZE)
      CPU_SET(static_cast<size_t>(cpu), &set);
  }
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// Signals of the process are for its own threads, not for a worker in the middle of a kernel.
class ScopedSignalBlock {
 public:
  ScopedSignalBlock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ScopedSignalBlock(const ScopedSignalBlock&) = delete;
  ScopedSignalBlock& operator=(const ScopedSignalBlock&) = delete;

 private:
  sigset_t before_;
};

// One run's parameters. Written by Run before the ranges are offered; a worker reads them only
// while it holds a claimed range, and a run does not end before that range has.
struct Job {
  ThreadPool::RangeFn fn = nullptr;
  void* context = nullptr;
  int64_t count = 0;
  int64_t ranges = 0;

  // Task index where a range begins: sizes differ by at most one.
  int64_t Begin(int64_t range) const {
    return count / ranges * range + std::min(count % ranges, range);
  }
};

class FutexThreadPool final : public ThreadPool {
 public:
  FutexThreadPool(int threads, SpinMode spin_mode) : threads_(threads), spin_mode_(spin_mode) {}
  ~FutexThreadPool() override { Stop(); }

  Status Start(const Topology& topology);
  int threads() const override { return threads_; }
  void Run(int64_t count, int64_t grain, RangeFn fn, void* context) override;

 private:
  void Stop();
  void WorkerLoop(int worker);
  void WaitForEpochAfter(uint32_t seen);
  void WorkOnRanges(int worker);
  int64_t ClaimRange();
  void ReportEnded(int64_t ranges);
  void WaitForRanges();

  const int threads_;
  const SpinMode spin_mode_;
  std::vector<std::thread> workers_;  // threads_ - 1 of them: worker 0 is the caller
  Job job_;

  // Each on its own cache line: they are written by different threads at different times.
  alignas(64) std::atomic<uint32_t> epoch_{0};      // runs started; workers sleep on it
  alignas(64) std::atomic<uint32_t> unclaimed_{0};  // ranges nobody has taken
  alignas(64) std::atomic<uint32_t> unended_{0};    // ranges not yet ended; the caller sleeps on it
  alignas(64) std::atomic<uint32_t> sleepers_{0};   // workers at or in their futex
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stopping_{false};
};

Status FutexThreadPool::Start(const Topology& topology) {
  ScopedSignalBlock block;
  try {
    for (int worker = 1; worker < threads_; ++worker) {
      workers_.emplace_back([this, worker, cpus = PlacementOf(topology, threads_, worker)] {
        PinThisThread(cpus);
        const std::string name = "tenon-" + std::to_string(worker);
        pthread_setname_np(pthread_self(), name.c_str());
        WorkerLoop(worker);
      });
    }
  } catch (const std::system_error& error) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "the system refused thread " + std::to_string(workers_.size() + 1) + " of " +
                         std::to_string(threads_) + ": " + error.what());
  }
  return {};
}

void FutexThreadPool::Stop() {
  stopping_.store(true);
  epoch_.fetch_add(1);
  FutexWake(epoch_, threads_);
  for (std::thread& worker : workers_)
    worker.join();
}

void FutexThreadPool::WorkerLoop(int worker) {
  uint32_t seen = 0;
  while (true) {
    WaitForEpochAfter(seen);
    seen = epoch_.load();
    if (stopping_.load())
      return;
    WorkOnRanges(worker);
  }
}

void FutexThreadPool::WaitForEpochAfter(uint32_t seen) {
  const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (SpinUntil(spin_mode_, changed))
    return;
  // Announced before the last look at the epoch (the futex's own): either Run sees the sleeper or
  // the futex sees the new epoch. Both sides are sequentially consistent.
  sleepers_.fetch_add(1);
  while (!changed())
    FutexWait(epoch_, seen);
  sleepers_.fetch_sub(1);
}

// Compare-and-swap rather than a plain decrement: a worker that comes late must not take the
// counter below zero. Whatever run a successful claim belongs to is the current one.
int64_t FutexThreadPool::ClaimRange() {
  uint32_t left = unclaimed_.load(std::memory_order_relaxed);
  while (left > 0) {
    if (unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                         std::memory_order_relaxed))
      return job_.ranges - left;
  }
  return -1;
}

void FutexThreadPool::WorkOnRanges(int worker) {
  int64_t ended = 0;
  for (int64_t range = ClaimRange(); range >= 0; range = ClaimRange()) {
    job_.fn(job_.context, job_.Begin(range), job_.Begin(range + 1), worker);
    ++ended;
  }
  // In one go, and last: until then the run can't end, so job_ stayed as it was.
  if (ended > 0)
    ReportEnded(ended);
}

void FutexThreadPool::ReportEnded(int64_t ranges) {
  const auto ended = static_cast<uint32_t>(ranges);
  if (unended_.fetch_sub(ended) == ended && caller_sleeps_.load())
    FutexWake(unended_, 1);
}

void FutexThreadPool::WaitForRanges() {
  if (SpinUntil(spin_mode_, [&] { return unended_.load(std::memory_order_acquire) == 0; }))
    return;
  caller_sleeps_.store(true);
  for (uint32_t left = unended_.load(); left != 0; left = unended_.load())
    FutexWait(unended_, left);
  caller_sleeps_.store(false);
}

void FutexThreadPool::Run(int64_t count, int64_t grain, RangeFn fn, void* context) {
  if (count <= 0)
    return;
  const int64_t most = std::max<int64_t>(count / std::max<int64_t>(grain, 1), 1);
  const int64_t ranges = std::min(most, threads_ * kRangesPerWorker);
  if (threads_ == 1 || ranges == 1) {
    fn(context, 0, count, 0);
    return;
  }
  job_ = {fn, context, count, ranges};
  unended_.store(static_cast<uint32_t>(ranges), std::memory_order_relaxed);
  unclaimed_.store(static_cast<uint32_t>(ranges), std::memory_order_release);
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0)
    FutexWake(epoch_, std::min<int64_t>(ranges, threads_) - 1);
  WorkOnRanges(0);
  WaitForRanges();
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    return InvalidArgument("thread count is " + std::to_string(threads) + ", expected 0 to " +
                           std::to_string(kMaxThreads));
  const Topology topology = ReadTopology();
  if (threads == 0)
    threads = DefaultThreadCount(topology);
  // Spinning pays only when every worker has a CPU of its own.
  const bool fits = static_cast<size_t>(threads) <= topology.cores.size() &&
                    (topology.cgroup_cpus == 0 || threads <= topology.cgroup_cpus);
  auto pool =
      std::make_unique<FutexThreadPool>(threads, fits ? SpinMode::kSpin : SpinMode::kSleepAtOnce);
  TENON_RETURN_IF_ERROR(pool->Start(topology));
  return std::unique_ptr<ThreadPool>(std::move(pool));
}

}  // namespace tenon

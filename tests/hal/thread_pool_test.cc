#include "hal/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace tenon {
namespace {

std::unique_ptr<ThreadPool> MakePool(int threads) {
  auto pool = ThreadPool::Create(threads);
  EXPECT_TRUE(pool.ok());
  return std::move(pool).value();
}

struct Case {
  int threads;
  int64_t count;
  int64_t grain;
};

// Every task runs exactly once, in ranges of at least the grain.
TEST(ThreadPool, CoversEveryTaskOnce) {
  const Case cases[] = {{1, 1, 1},  {1, 100, 7},   {2, 1, 1},    {2, 2, 1},     {3, 7, 3},
                        {4, 3, 1},  {4, 17, 5},    {4, 1000, 1}, {4, 1000, 64}, {8, 5, 100},
                        {8, 63, 2}, {2, 12345, 1}, {16, 257, 16}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message()
                 << c.threads << " threads, " << c.count << " tasks, grain " << c.grain);
    auto pool = MakePool(c.threads);
    EXPECT_EQ(pool->threads(), c.threads);
    std::vector<std::atomic<int>> runs(static_cast<size_t>(c.count));
    std::atomic<int> bad_ranges{0};
    pool->ParallelFor(c.count, c.grain, [&](int64_t begin, int64_t end, int worker) {
      if (worker < 0 || worker >= c.threads || end - begin < std::min(c.grain, c.count))
        bad_ranges.fetch_add(1);
      for (int64_t i = begin; i < end; ++i)
        runs[static_cast<size_t>(i)].fetch_add(1);
    });
    EXPECT_EQ(bad_ranges.load(), 0);
    for (size_t i = 0; i < runs.size(); ++i)
      ASSERT_EQ(runs[i].load(), 1) << "task " << i;
  }
}

TEST(ThreadPool, NothingToDoRunsNothing) {
  auto pool = MakePool(3);
  int calls = 0;
  pool->ParallelFor(0, 1, [&](int64_t, int64_t, int) { ++calls; });
  pool->ParallelFor(-5, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 0);
}

// Plain (not atomic) data handed from run to run: what one run wrote the next one and the caller
// see. Under ThreadSanitizer this also checks the pool's own synchronization.
TEST(ThreadPool, RunsAreOrdered) {
  auto pool = MakePool(4);
  std::vector<int64_t> values(64, 0);
  for (int64_t round = 0; round < 5000; ++round) {
    pool->ParallelFor(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t& value = values[static_cast<size_t>(63 - i)];
        value = value == round ? round + 1 : -1;
      }
    });
    ASSERT_EQ(values[0], round + 1);
  }
  for (int64_t value : values)
    EXPECT_EQ(value, 5000);
}

// Runs with sleeps between them, so that workers are met awake, on their way to sleep and asleep.
TEST(ThreadPool, WakesSleepers) {
  auto pool = MakePool(4);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 200; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round * 2));
    pool->ParallelFor(16, 1, [&](int64_t begin, int64_t end, int) { sum.fetch_add(end - begin); });
  }
  EXPECT_EQ(sum.load(), 200 * 16);
}

// A worker that is held up in one range must not hold up the others' ranges: all the other tasks
// end while the first one still runs.
TEST(ThreadPool, AStuckRangeDelaysNothingElse) {
  auto pool = MakePool(2);
  constexpr int64_t kCount = 64;
  std::atomic<int64_t> ended{0};
  std::atomic<int64_t> ended_while_stuck{0};
  int64_t stuck_range = 0;
  pool->ParallelFor(kCount, 1, [&](int64_t begin, int64_t end, int) {
    if (begin == 0) {
      stuck_range = end;
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (ended.load() < kCount - end && std::chrono::steady_clock::now() < give_up)
        std::this_thread::yield();
      ended_while_stuck.store(ended.load());
    }
    ended.fetch_add(end - begin);
  });
  EXPECT_LT(stuck_range, kCount / 2);
  EXPECT_EQ(ended_while_stuck.load(), kCount - stuck_range);
}

TEST(ThreadPool, UsesSeveralThreads) {
  auto pool = MakePool(3);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  // Each range waits until all three workers have one, so no worker can take two.
  std::atomic<int> arrived{0};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool->ParallelFor(3, 1, [&](int64_t, int64_t, int) {
    {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    }
    arrived.fetch_add(1);
    while (arrived.load() < 3 && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
  });
  EXPECT_EQ(seen.size(), 3u);
}

TEST(ThreadPool, CallerIsWorkerZero) {
  auto pool = MakePool(4);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> mistakes{0};
  for (int round = 0; round < 100; ++round) {
    pool->ParallelFor(32, 1, [&](int64_t, int64_t, int worker) {
      if ((worker == 0) != (std::this_thread::get_id() == caller))
        mistakes.fetch_add(1);
    });
  }
  EXPECT_EQ(mistakes.load(), 0);
}

int64_t ProcessCpuMicroseconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * int64_t{1000000} +
         usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

// CPU time, not wall time: it stays near zero however loaded the machine is. A pool that spins
// would use up to 300 ms per worker.
TEST(ThreadPool, IdlePoolUsesNoCpu) {
  auto pool = MakePool(2);
  pool->ParallelFor(100, 1, [](int64_t, int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int64_t before = ProcessCpuMicroseconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(ProcessCpuMicroseconds() - before, 30000);
}

// The caller sleeps too while another worker works on the last range.
TEST(ThreadPool, WaitingCallerUsesNoCpu) {
  auto pool = MakePool(2);
  std::atomic<bool> other_has_work{false};
  int64_t caller_cpu = 0;
  const auto thread_cpu = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
  };
  pool->ParallelFor(2, 1, [&](int64_t, int64_t, int worker) {
    if (worker == 0) {
      while (!other_has_work.load())
        std::this_thread::yield();
      caller_cpu = thread_cpu();
    } else if (!other_has_work.exchange(true)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  if (caller_cpu == 0)
    GTEST_SKIP() << "the worker took both ranges before the caller came";
  EXPECT_LT(thread_cpu() - caller_cpu, 20000000);
}

TEST(ThreadPool, RefusesImpossibleCounts) {
  for (int threads : {-1, -1000, 1025, 2147483647}) {
    auto pool = ThreadPool::Create(threads);
    ASSERT_FALSE(pool.ok()) << threads;
    EXPECT_EQ(pool.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(pool.error().message.find(std::to_string(threads)), std::string::npos);
  }
}

TEST(ThreadPool, ZeroMeansTheDefault) {
  auto pool = MakePool(0);
  EXPECT_GE(pool->threads(), 1);
}

// With work and without, so that workers end that never ran a range.
TEST(ThreadPool, CanBeMadeAndDestroyedOften) {
  std::atomic<int64_t> done{0};
  for (int i = 0; i < 50; ++i) {
    auto pool = MakePool(1 + i % 5);
    ASSERT_EQ(pool->threads(), 1 + i % 5);
    if (i % 2 == 0)
      pool->ParallelFor(10, 1,
                        [&](int64_t begin, int64_t end, int) { done.fetch_add(end - begin); });
  }
  EXPECT_EQ(done.load(), 25 * 10);
}

}  // namespace
}  // namespace tenon

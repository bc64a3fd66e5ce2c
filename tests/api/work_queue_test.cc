#include "frontend/server/api/work_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace tenon {
namespace {

TEST(WorkQueue, RunsInOrderOnAnotherThread) {
  WorkQueue queue;
  std::vector<int> order;
  std::promise<void> done;
  std::thread::id id;
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(queue.Post([&order, i] { order.push_back(i); }));
  ASSERT_TRUE(queue.Post([&] {
    id = std::this_thread::get_id();
    done.set_value();
  }));
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST(WorkQueue, TakesSoManyAndDropsThemWhenItStops) {
  WorkQueue queue;
  std::promise<void> begun;
  std::promise<void> release;
  ASSERT_TRUE(queue.Post([&] {
    begun.set_value();
    release.get_future().wait();
  }));
  begun.get_future().wait();
  const auto held = std::make_shared<int>(0);
  int taken = 0;
  while (queue.Post([held] {}))
    ++taken;
  EXPECT_EQ(taken, 64);
  std::thread stop([&] { queue.Stop(); });
  release.set_value();
  stop.join();
  EXPECT_EQ(held.use_count(), 1);  // run or dropped
  EXPECT_FALSE(queue.Post([] {}));
}

TEST(WorkQueue, WithoutWorkThereIsNothingToStop) {
  WorkQueue queue;
  queue.Stop();
  EXPECT_FALSE(queue.Post([] {}));
}

}  // namespace
}  // namespace tenon

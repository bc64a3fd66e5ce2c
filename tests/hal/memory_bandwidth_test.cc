#include "hal/memory_bandwidth.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon {
namespace {

TEST(MemoryBandwidth, IsARate) {
  auto pool = ThreadPool::Create(2);
  ASSERT_TRUE(pool.ok());
  const auto rate = ReadBandwidth(int64_t{3} << 20, 3, **pool);
  ASSERT_TRUE(rate.ok());
  EXPECT_GT(*rate, 1e6);   // a megabyte a second: any machine
  EXPECT_LT(*rate, 1e14);  // above all machines, even from caches
}

TEST(MemoryBandwidth, RefusesWhatTheSystemRefuses) {
  auto pool = ThreadPool::Create(1);
  ASSERT_TRUE(pool.ok());
  const auto rate = ReadBandwidth(std::numeric_limits<int64_t>::max(), 1, **pool);
  ASSERT_FALSE(rate.ok());
  EXPECT_EQ(rate.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace tenon

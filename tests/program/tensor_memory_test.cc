// The memory of running programs: what is held, what is counted, what is refused.
#include "engine/program/tensor_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace tenon {
namespace {

// A random order of allocations and releases of very different sizes.
struct Walk {
  TensorMemory& memory;
  uint64_t seed;
  std::map<std::byte*, int64_t> live;

  uint64_t Next(uint64_t limit) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (seed >> 33) % limit;
  }
  void Step() {
    if (!live.empty() && Next(2) == 0) {
      auto victim = live.begin();
      std::advance(victim, static_cast<int64_t>(Next(live.size())));
      memory.Release(victim->first);
      live.erase(victim);
      return;
    }
    const auto bytes = static_cast<int64_t>(1 + Next(uint64_t{1} << (4 + Next(14))));
    const auto made = memory.Allocate(bytes);
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    ASSERT_FALSE(live.contains(*made)) << "given out twice";
    std::memset(*made, 0x5a, static_cast<size_t>(bytes));
    live[*made] = bytes;
  }
};

TEST(TensorMemoryTest, HoldsNoMoreThanWasEverInUse) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TensorMemory memory(int64_t{1} << 30, MemoryReuse::kByLifetime);
    Walk walk{memory, seed, {}};
    for (int i = 0; i < 400; ++i) {
      walk.Step();
      EXPECT_LE(memory.held_bytes(), memory.peak_bytes()) << "seed " << seed << ", step " << i;
      EXPECT_GE(memory.held_bytes(), memory.live_bytes());
    }
  }
}

TEST(TensorMemoryTest, PiecesOfTheLastRunServeTheNext) {
  TensorMemory memory(1 << 20, MemoryReuse::kByLifetime);
  std::byte* const first = *memory.Allocate(5000);
  memory.Clear();
  EXPECT_EQ(*memory.Allocate(5000), first);
}

TEST(TensorMemoryTest, CountsEveryPieceAsNewWithoutHoldingIt) {
  TensorMemory memory(1 << 20, MemoryReuse::kCountedAsNew);
  for (int i = 0; i < 10; ++i) {
    const auto made = memory.Allocate(6400);
    ASSERT_TRUE(made.ok());
    memory.Release(*made);
  }
  EXPECT_EQ(memory.peak_bytes(), 64000);
  EXPECT_EQ(memory.held_bytes(), 6400);
}

TEST(TensorMemoryTest, RefusesWhatIsBeyondTheLimit) {
  TensorMemory memory(1000, MemoryReuse::kByLifetime);
  ASSERT_TRUE(memory.Allocate(600).ok());
  const auto refused = memory.Allocate(600);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace tenon

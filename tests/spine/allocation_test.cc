// A decode step takes no memory from the heap: its cost must not depend on the allocator's mood.
#include "sample/allocation_count.h"
#include "test_model.h"

namespace tenon {
namespace {

class AllocationTest : public testing::TestWithParam<const char*> {};

// The counter itself counts.
TEST(AllocationCount, SeesAnAllocation) {
  const size_t before = AllocationCount();
  const std::vector<int> some(1000, 1);
  EXPECT_EQ(some[999], 1);
  EXPECT_EQ(AllocationCount(), before + 1);
}

TEST_P(AllocationTest, DecodeStepsAllocateNothing) {
  LoadOptions options;
  options.threads = 2;
  options.context_tokens = 2048;
  TENON_LOAD_OR_SKIP(model, GetParam(), options);
  std::vector<Sequence> sequences;
  for (int i = 0; i < 3; ++i) {
    sequences.emplace_back(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
    ASSERT_TRUE(ReserveNow(sequences.back(), 600).ok());
  }
  BatchBuilder builder;
  // Positions on both sides of a span of attention, alone and three at a time; the builder's arrays
  // have grown after the first step.
  for (int64_t position : {0, 1, 255, 256, 300, 511, 512, 599}) {
    const size_t before = AllocationCount();
    const size_t count = position % 2 == 0 ? sequences.size() : 1;
    builder.Clear();
    for (size_t i = 0; i < count; ++i) {
      builder.AddToken(builder.AddSequence(sequences[i].block_table()),
                       100 + static_cast<int32_t>(i), position, Logits::kYes);
    }
    ASSERT_TRUE(model->runner().Step(builder.batch()).ok());
    if (position > 0) {
      EXPECT_EQ(AllocationCount(), before) << "at position " << position;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AllocationTest, testing::Values(kSmolLm, kGemma),
                         [](const auto& param) {
                           return std::string(param.index == 0 ? "SmolLm" : "Gemma");
                         });

}  // namespace
}  // namespace tenon

#include "engine/kv/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tenon {
namespace {

std::vector<int32_t> BlockOf(int32_t first) {
  std::vector<int32_t> tokens(static_cast<size_t>(kKvBlockTokens));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

uint64_t AlwaysSeven(const SipKey&, std::span<const std::byte>) {
  return 7;
}

constexpr SipKey kKey = {1, 2};

TEST(PrefixIndex, FindsChainsByTokensParentAndScope) {
  PrefixIndex index(8, kKey);
  const CacheScope scope{5, "tenant"};
  ASSERT_TRUE(index.Insert(3, scope, kNoBlock, BlockOf(0)));
  ASSERT_TRUE(index.Insert(4, scope, 3, BlockOf(32)));
  EXPECT_EQ(index.Find(scope, kNoBlock, BlockOf(0)), 3);
  EXPECT_EQ(index.Find(scope, 3, BlockOf(32)), 4);
  EXPECT_EQ(index.Find(scope, kNoBlock, BlockOf(32)), kNoBlock);  // not at the beginning
  EXPECT_EQ(index.Find(scope, 4, BlockOf(32)), kNoBlock);
  EXPECT_EQ(index.Find(scope, 3, BlockOf(33)), kNoBlock);
  EXPECT_EQ(index.Find({6, "tenant"}, kNoBlock, BlockOf(0)), kNoBlock);
  EXPECT_EQ(index.Find({5, "other"}, kNoBlock, BlockOf(0)), kNoBlock);
  EXPECT_EQ(index.Find({5, ""}, kNoBlock, BlockOf(0)), kNoBlock);
}

TEST(PrefixIndex, ErasesTails) {
  PrefixIndex index(8, kKey);
  ASSERT_TRUE(index.Insert(0, {}, kNoBlock, BlockOf(0)));
  ASSERT_TRUE(index.Insert(1, {}, 0, BlockOf(32)));
  EXPECT_EQ(index.ChildCount(0), 1);
  index.Erase(1);
  EXPECT_EQ(index.ChildCount(0), 0);
  EXPECT_EQ(index.Find({}, 0, BlockOf(32)), kNoBlock);
  index.Erase(0);
  EXPECT_EQ(index.size(), 0U);
}

// Every hash is equal: all that keeps requests apart is the comparison of what is stored.
TEST(PrefixIndex, ACollisionIsAMiss) {
  PrefixIndex index(8, kKey, AlwaysSeven);
  const CacheScope scope{1, "a"};
  ASSERT_TRUE(index.Insert(0, scope, kNoBlock, BlockOf(0)));
  EXPECT_EQ(index.Find(scope, kNoBlock, BlockOf(0)), 0);
  EXPECT_EQ(index.Find(scope, kNoBlock, BlockOf(1)), kNoBlock);     // other tokens
  EXPECT_EQ(index.Find({1, "b"}, kNoBlock, BlockOf(0)), kNoBlock);  // other tenant
  EXPECT_EQ(index.Find({2, "a"}, kNoBlock, BlockOf(0)), kNoBlock);  // other adapter
  EXPECT_EQ(index.Find(scope, 0, BlockOf(0)), kNoBlock);            // other place in the chain
  EXPECT_FALSE(index.Insert(1, {1, "b"}, kNoBlock, BlockOf(0)));
  EXPECT_FALSE(index.Contains(1));
}

}  // namespace
}  // namespace tenon

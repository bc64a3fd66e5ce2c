#include "engine/kv/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace tenon {
namespace {

using testing::HasSubstr;

KvPool MakePool(const KvConfig& config, KeyedHash hash = SipHash24) {
  auto pool = KvPool::Create(config, hash);
  EXPECT_TRUE(pool.ok()) << pool.error().ToString();
  return std::move(pool).value();
}

constexpr KvConfig kSmall = {KvType::kF16, 2, 3, 8, 4};

std::vector<int32_t> BlockOf(int32_t first) {
  std::vector<int32_t> tokens(static_cast<size_t>(kKvBlockTokens));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(KvLayout, HasTheBytesByHand) {
  auto layout = KvLayout::Create(kSmall);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->key_bytes, 2U * 8 * 32);
  EXPECT_EQ(layout->head_stride, 2U * 512);
  EXPECT_EQ(layout->block_stride, 3U * 1024);
  EXPECT_EQ(layout->layer_stride, 4U * 3072);
  EXPECT_EQ(layout->total_bytes, 2U * 12288);
  EXPECT_EQ(KvLayout::Create({KvType::kF32, 1, 1, 64, 1})->total_bytes, 2U * 4 * 64 * 32);
}

TEST(KvLayout, RefusesWhatNoModelHas) {
  struct Case {
    KvConfig config;
    std::string where;
  };
  const std::vector<Case> cases = {{{KvType::kF16, 0, 1, 8, 1}, "KV cache: layers"},
                                   {{KvType::kF16, 1, -1, 8, 1}, "KV cache: kv_heads"},
                                   {{KvType::kF16, 1, 1, 12, 1}, "KV cache: head_dim"},
                                   {{KvType::kF16, 1, 1, 8, 0}, "KV cache: blocks"},
                                   {{KvType::kF16, 1, 1 << 20, 8, 1}, "KV cache: kv_heads"}};
  for (const Case& test : cases) {
    auto layout = KvLayout::Create(test.config);
    ASSERT_FALSE(layout.ok()) << test.where;
    EXPECT_EQ(layout.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(layout.error().where, test.where);
  }
  // 2^34 bytes a block, 2^12 layers, 2^31 blocks: more than 2^64.
  auto huge =
      KvLayout::Create({KvType::kF32, 4096, 4096, 8192, std::numeric_limits<int32_t>::max()});
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::kResourceExhausted);
}

TEST(KvPool, PutsLayersFirstAndHeadsWithinBlocks) {
  const KvPool pool = MakePool(kSmall);
  const std::byte* base = pool.KeyBase(0, 0);
  EXPECT_EQ(pool.ValueBase(0, 0) - base, 512);
  EXPECT_EQ(pool.KeyBase(0, 1) - base, 1024);
  EXPECT_EQ(pool.block_stride(), 3072);
  EXPECT_EQ(pool.KeyBase(1, 0) - base, 12288);
  EXPECT_EQ(pool.ValueBase(1, 2) - base, 12288 + 2 * 1024 + 512);
  EXPECT_EQ(pool.LayerBytes(1).data() - base, 12288);
  EXPECT_EQ(pool.LayerBytes(1).size(), 12288U);
  EXPECT_EQ(pool.BlockBytes(1, 3).data() - base, 12288 + 3 * 3072);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0U);
}

TEST(KvPool, CountsReferences) {
  KvPool pool = MakePool(kSmall);
  const BlockIndex block = pool.Allocate();
  pool.Retain(block);
  EXPECT_EQ(pool.RefCount(block), 2);
  EXPECT_EQ(pool.stats().used, 1);
  pool.Release(block);
  EXPECT_EQ(pool.stats().used, 1);
  pool.Release(block);
  EXPECT_EQ(pool.stats().used, 0);
  EXPECT_EQ(pool.stats().free, 4);
}

TEST(KvPool, GivesEachBlockOnceAndThenNone) {
  KvPool pool = MakePool(kSmall);
  std::vector<BlockIndex> blocks;
  for (int i = 0; i < 4; ++i)
    blocks.push_back(pool.Allocate());
  EXPECT_THAT(blocks, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(pool.Allocate(), kNoBlock);
}

TEST(KvPool, SaysWhatCanNeverFit) {
  const KvPool pool = MakePool(kSmall);
  EXPECT_TRUE(pool.CheckFits(128).ok());
  const Status status = pool.CheckFits(129);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("129 tokens need 5 blocks"));
  EXPECT_THAT(status.error().message, HasSubstr("has 4 (128 tokens)"));
  EXPECT_FALSE(pool.CheckFits(std::numeric_limits<int64_t>::max()).ok());
}

TEST(KvPool, EvictsTheOldestTailFirst) {
  KvPool pool = MakePool(kSmall);
  const CacheScope scope;
  // Chain a: 2 blocks; chain b: 2 blocks; a is released before b, tails first.
  std::vector<BlockIndex> a = {pool.Allocate(), pool.Allocate()};
  std::vector<BlockIndex> b = {pool.Allocate(), pool.Allocate()};
  ASSERT_EQ(pool.Register(a[0], scope, kNoBlock, BlockOf(0)), a[0]);
  ASSERT_EQ(pool.Register(a[1], scope, a[0], BlockOf(32)), a[1]);
  ASSERT_EQ(pool.Register(b[0], scope, kNoBlock, BlockOf(1000)), b[0]);
  ASSERT_EQ(pool.Register(b[1], scope, b[0], BlockOf(1032)), b[1]);
  for (const BlockIndex block : {a[1], a[0], b[1], b[0]})
    pool.Release(block);
  EXPECT_EQ(pool.stats().cached, 4);
  EXPECT_EQ(pool.available(), 4);

  // A use of chain a makes b the older one.
  std::vector<BlockIndex> found;
  std::vector<int32_t> tokens = BlockOf(0);
  const std::vector<int32_t> tail = BlockOf(32);
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  pool.RetainPrefix(scope, tokens, found);
  ASSERT_EQ(found, a);
  pool.Release(a[1]);
  pool.Release(a[0]);
  for (const BlockIndex expected : {b[1], b[0], a[1], a[0]})
    EXPECT_EQ(pool.Allocate(), expected);
  EXPECT_EQ(pool.stats().evictions, 4U);
}

TEST(KvPool, RegisteringEqualTokensGivesTheFirstBlock) {
  KvPool pool = MakePool(kSmall);
  const BlockIndex first = pool.Allocate();
  const BlockIndex second = pool.Allocate();
  ASSERT_EQ(pool.Register(first, {}, kNoBlock, BlockOf(0)), first);
  EXPECT_EQ(pool.Register(first, {}, kNoBlock, BlockOf(0)), first);  // again: nothing happens
  EXPECT_EQ(pool.Register(second, {}, kNoBlock, BlockOf(0)), first);
  EXPECT_EQ(pool.RefCount(first), 2);
  EXPECT_EQ(pool.RefCount(second), 0);
  EXPECT_EQ(pool.stats().free, 3);
}

TEST(KvPool, DropsWhatIsCachedOnly) {
  KvPool pool = MakePool(kSmall);
  const BlockIndex kept = pool.Allocate();
  const BlockIndex dropped = pool.Allocate();
  ASSERT_EQ(pool.Register(kept, {}, kNoBlock, BlockOf(0)), kept);
  ASSERT_EQ(pool.Register(dropped, {}, kNoBlock, BlockOf(32)), dropped);
  pool.Release(dropped);
  pool.DropCached();
  EXPECT_EQ(pool.stats().cached, 0);
  EXPECT_EQ(pool.stats().used, 1);
  EXPECT_FALSE(pool.IsRegistered(dropped));
  EXPECT_TRUE(pool.IsRegistered(kept));
}

}  // namespace
}  // namespace tenon

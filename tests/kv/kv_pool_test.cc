#include "engine/kv/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// Two float copies, with the block's bytes beside them: 8.5 bits a key, 10 a value of 8 channels.
TEST(KvLayout, PackedTypesHaveFloatCopiesBehindTheBlocks) {
  auto layout = KvLayout::Create({KvType::kQ8, 2, 3, 8, 4, 2});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->key_bytes, 8U * 32 + 2 * 8);
  EXPECT_EQ(layout->head_stride, 272U + 8 * 32 + 2 * 32);
  EXPECT_EQ(layout->copies_offset, 2U * 4 * 3 * 592);
  EXPECT_EQ(layout->copy_stride, 3U * 2 * 2 * 8 * 32);
  EXPECT_EQ(layout->total_bytes, 14208U + 2 * 2 * 3072);
  EXPECT_EQ(KvLayout::Create({KvType::kQ4, 1, 1, 64, 1})->key_bytes, 64U * 16 + 128);
  EXPECT_FALSE(KvLayout::Create({KvType::kQ4, 1, 1, 64, 1, -1}).ok());
}

TEST(KvPool, FloatCopiesAreTakenDroppedAndFreedWithTheirBlocks) {
  KvPool pool = MakePool({KvType::kQ4, 2, 3, 8, 4, 2});
  const BlockIndex a = pool.Allocate();
  const BlockIndex b = pool.Allocate();
  const BlockIndex c = pool.Allocate();
  EXPECT_EQ(pool.FloatCopy(a), -1);
  EXPECT_TRUE(pool.TakeFloatCopy(a));
  EXPECT_TRUE(pool.TakeFloatCopy(a));  // the same one
  EXPECT_TRUE(pool.TakeFloatCopy(b));
  EXPECT_NE(pool.FloatCopy(a), pool.FloatCopy(b));
  EXPECT_FALSE(pool.TakeFloatCopy(c));
  pool.DropFloatCopy(b);
  EXPECT_TRUE(pool.TakeFloatCopy(c));
  pool.Release(a);
  EXPECT_EQ(pool.free_float_copies(), 1);
}

// Cached: a first block keeps its copy until another block needs it, a later one does not.
TEST(KvPool, CachedFirstBlocksKeepTheirFloatCopies) {
  KvPool pool = MakePool({KvType::kQ4, 1, 1, 8, 4, 2});
  const BlockIndex first = pool.Allocate();
  const BlockIndex second = pool.Allocate();
  ASSERT_TRUE(pool.TakeFloatCopy(first) && pool.TakeFloatCopy(second));
  ASSERT_EQ(pool.Register(first, {}, kNoBlock, BlockOf(0)), first);
  ASSERT_EQ(pool.Register(second, {}, first, BlockOf(100)), second);
  pool.Release(second);
  pool.Release(first);
  EXPECT_GE(pool.FloatCopy(first), 0);
  EXPECT_EQ(pool.FloatCopy(second), -1);
  const BlockIndex third = pool.Allocate();
  const BlockIndex fourth = pool.Allocate();
  EXPECT_TRUE(pool.TakeFloatCopy(third));
  EXPECT_EQ(pool.stats().evictions, 0U);
  EXPECT_TRUE(pool.TakeFloatCopy(fourth));
  EXPECT_EQ(pool.stats().evictions, 2U);  // the second block, then the first with its copy
  EXPECT_EQ(pool.stats().cached, 0);
}

TEST(KvPool, APrivateCopyTakesTheFloatCopyAlong) {
  KvPool pool = MakePool({KvType::kQ8, 2, 1, 8, 4, 2});
  const BlockIndex block = pool.Allocate();
  ASSERT_TRUE(pool.TakeFloatCopy(block));
  for (int32_t layer = 0; layer < 2; ++layer)
    std::ranges::fill(pool.CopyBytes(layer, pool.FloatCopy(block)), std::byte{7});
  pool.Retain(block);
  const BlockIndex own = pool.MakePrivate(block);
  ASSERT_NE(own, block);
  for (int32_t layer = 0; layer < 2; ++layer) {
    for (const std::byte byte : pool.CopyBytes(layer, pool.FloatCopy(own)))
      ASSERT_EQ(byte, std::byte{7});
  }
  // There is none for a third block: nothing is changed.
  pool.Retain(own);
  EXPECT_EQ(pool.MakePrivate(own), kNoBlock);
  EXPECT_EQ(pool.RefCount(own), 2);
  EXPECT_EQ(pool.stats().free, 2);
}

}  // namespace
}  // namespace tenon

#include "engine/kv/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kv/kv_bytes.h"

namespace tenon {
namespace {

using testing::HasSubstr;

KvPool MakePool(int32_t blocks, KeyedHash hash = SipHash24) {
  KvConfig config = kBytesConfig;
  config.blocks = blocks;
  auto pool = KvPool::Create(config, hash);
  EXPECT_TRUE(pool.ok());
  return std::move(pool).value();
}

std::vector<int32_t> Count(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Sequence Computed(KvPool& pool, const CacheScope& scope, const std::vector<int32_t>& tokens) {
  Sequence sequence(pool, scope);
  EXPECT_EQ(Step(pool, sequence, tokens, 0), Reservation::kReady);
  sequence.Commit();
  return sequence;
}

TEST(Sequence, ReusesWholeBlocksButLeavesOneToken) {
  KvPool pool = MakePool(16);
  const Sequence first = Computed(pool, {}, Count(0, 100));
  struct Case {
    int32_t prompt;
    int64_t reused;
  };
  for (const Case test : {Case{100, 96}, Case{97, 96}, Case{96, 64}, Case{65, 64}, Case{64, 32},
                          Case{33, 32}, Case{32, 0}, Case{1, 0}, Case{0, 0}}) {
    Sequence second(pool, {});
    EXPECT_EQ(second.MatchPrefix(Count(0, test.prompt)), test.reused) << test.prompt;
    EXPECT_EQ(second.length(), test.reused);
    EXPECT_TRUE(HoldsAll(pool, second, 0));
  }
  std::vector<int32_t> other = Count(0, 100);
  other[40] = 7;
  Sequence third(pool, {});
  EXPECT_EQ(third.MatchPrefix(other), 32);
}

TEST(Sequence, KeepsAdaptersTenantsAndPrivateRequestsApart) {
  KvPool pool = MakePool(16);
  const Sequence first = Computed(pool, {1, "a"}, Count(0, 100));
  const auto reused = [&](CacheScope scope, PrefixCache mode) {
    Sequence sequence(pool, std::move(scope), mode);
    return sequence.MatchPrefix(Count(0, 100));
  };
  EXPECT_EQ(reused({1, "a"}, PrefixCache::kOn), 96);
  EXPECT_EQ(reused({2, "a"}, PrefixCache::kOn), 0);
  EXPECT_EQ(reused({1, "b"}, PrefixCache::kOn), 0);
  EXPECT_EQ(reused({1, "a"}, PrefixCache::kOff), 0);

  Sequence secret(pool, {}, PrefixCache::kOff);
  ASSERT_EQ(Step(pool, secret, Count(0, 64), 0), Reservation::kReady);
  secret.Commit();
  EXPECT_EQ(reused({}, PrefixCache::kOn), 0);
}

uint64_t AlwaysSeven(const SipKey&, std::span<const std::byte>) {
  return 7;
}

TEST(Sequence, WithCollidingHashesStillSeesItsOwnTokensOnly) {
  KvPool pool = MakePool(16, AlwaysSeven);
  const Sequence first = Computed(pool, {1, "a"}, Count(0, 64));
  Sequence same(pool, {1, "a"});
  EXPECT_EQ(same.MatchPrefix(Count(0, 64)), 32);  // the second block found its hash taken
  Sequence other(pool, {1, "b"});
  EXPECT_EQ(other.MatchPrefix(Count(0, 64)), 0);
  ASSERT_EQ(Step(pool, other, Count(0, 64), 9), Reservation::kReady);
  other.Commit();
  EXPECT_TRUE(HoldsAll(pool, other, 9));
  EXPECT_TRUE(HoldsAll(pool, first, 0));
}

TEST(Sequence, TellsNeverFromNotNow) {
  KvPool pool = MakePool(4);
  Sequence first(pool, {});
  auto never = first.Reserve(129);
  ASSERT_FALSE(never.ok());
  EXPECT_EQ(never.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(never.error().message, HasSubstr("129 tokens need 5 blocks"));
  EXPECT_FALSE(first.Reserve(std::numeric_limits<int64_t>::max()).ok());

  ASSERT_EQ(Step(pool, first, Count(0, 80), 0), Reservation::kReady);
  auto second = std::make_unique<Sequence>(pool, CacheScope{});
  ASSERT_EQ(Step(pool, *second, Count(500, 32), 0), Reservation::kReady);
  auto later = first.Reserve(17);
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(*later, Reservation::kWait);
  EXPECT_EQ(first.block_table().size(), 3U);  // nothing changed
  second.reset();
  EXPECT_EQ(first.Reserve(17).value(), Reservation::kReady);
}

TEST(Sequence, ForksCopyOnWriteByBytes) {
  KvPool pool = MakePool(8);
  Sequence parent = Computed(pool, {}, Count(0, 40));
  Sequence fork = parent.Fork();
  EXPECT_EQ(pool.stats().used, 2);
  ASSERT_EQ(Step(pool, fork, Count(900, 3), 0), Reservation::kReady);
  EXPECT_EQ(pool.stats().used, 3);
  EXPECT_EQ(pool.stats().copies, 1U);
  ASSERT_EQ(Step(pool, parent, Count(700, 3), 0), Reservation::kReady);
  EXPECT_EQ(pool.stats().copies, 1U);  // alone with it by now
  EXPECT_EQ(fork.block_table()[0], parent.block_table()[0]);
  EXPECT_NE(fork.block_table()[1], parent.block_table()[1]);
  EXPECT_TRUE(HoldsAll(pool, parent, 0));
  EXPECT_TRUE(HoldsAll(pool, fork, 0));
}

TEST(Sequence, AForkThatCannotCopyWaits) {
  KvPool pool = MakePool(2);
  Sequence parent = Computed(pool, {}, Count(0, 40));
  Sequence fork = parent.Fork();
  EXPECT_EQ(fork.Reserve(1).value(), Reservation::kWait);
  {
    const Sequence gone = std::move(parent);
  }
  EXPECT_EQ(fork.Reserve(1).value(), Reservation::kReady);
}

TEST(Sequence, TruncatesDraftsWithoutATrace) {
  KvPool pool = MakePool(8);
  Sequence sequence = Computed(pool, {}, Count(0, 30));
  constexpr uint64_t kDraft = 77;
  ASSERT_EQ(Step(pool, sequence, Count(30, 40), kDraft), Reservation::kReady);
  sequence.Truncate(30);
  EXPECT_EQ(sequence.block_table().size(), 1U);
  // Verified: 35 of the tokens, written again.
  ASSERT_EQ(Step(pool, sequence, Count(30, 35), 0), Reservation::kReady);
  sequence.Commit();
  EXPECT_TRUE(HoldsAll(pool, sequence, 0));
  Sequence other(pool, {});
  EXPECT_EQ(other.MatchPrefix(Count(0, 70)), 64);
  EXPECT_TRUE(HoldsAll(pool, other, 0));
}

TEST(Sequence, NeverWritesIntoARegisteredBlock) {
  KvPool pool = MakePool(8);
  Sequence sequence = Computed(pool, {}, Count(0, 96));
  Sequence reader(pool, {});
  ASSERT_EQ(reader.MatchPrefix(Count(0, 97)), 96);
  sequence.Truncate(40);
  ASSERT_EQ(Step(pool, sequence, Count(600, 20), 0), Reservation::kReady);
  EXPECT_TRUE(HoldsAll(pool, reader, 0));
  EXPECT_TRUE(HoldsAll(pool, sequence, 0));
}

TEST(Sequence, RewritesItsOwnTailInAFullPool) {
  KvPool pool = MakePool(2);
  Sequence sequence = Computed(pool, {}, Count(0, 64));
  sequence.Truncate(40);  // within a registered block, and no block to copy it to
  ASSERT_EQ(Step(pool, sequence, Count(600, 24), 0), Reservation::kReady);
  sequence.Commit();
  EXPECT_EQ(pool.stats().copies, 0U);
  EXPECT_TRUE(HoldsAll(pool, sequence, 0));
  Sequence other(pool, {});
  EXPECT_EQ(other.MatchPrefix(Count(0, 64)), 32);
}

TEST(Sequence, EqualTextsEndUpInTheSameBlocks) {
  KvPool pool = MakePool(8);
  Sequence first(pool, {});
  Sequence second(pool, {});
  ASSERT_EQ(Step(pool, first, Count(0, 64), 0), Reservation::kReady);
  ASSERT_EQ(Step(pool, second, Count(0, 70), 0), Reservation::kReady);
  EXPECT_EQ(pool.stats().used, 5);
  first.Commit();
  second.Commit();
  EXPECT_EQ(pool.stats().used, 3);
  EXPECT_TRUE(HoldsAll(pool, second, 0));
}

TEST(Sequence, MovesItsReferences) {
  KvPool pool = MakePool(8);
  Sequence first = Computed(pool, {}, Count(0, 64));
  Sequence second = std::move(first);
  EXPECT_EQ(pool.stats().used, 2);
  Sequence third = Computed(pool, {}, Count(500, 10));
  third = std::move(second);
  EXPECT_EQ(pool.stats().used, 2);
  EXPECT_EQ(pool.stats().free, 6);
  EXPECT_EQ(third.length(), 64);
}

TEST(Sequence, APreemptedRequestFindsItsBlocksAgain) {
  KvPool pool = MakePool(8);
  Sequence sequence = Computed(pool, {}, Count(0, 100));
  sequence.Truncate(0);
  EXPECT_EQ(pool.stats().used, 0);
  EXPECT_EQ(pool.stats().cached, 3);
  EXPECT_EQ(sequence.MatchPrefix(Count(0, 100)), 96);
  EXPECT_EQ(pool.stats().hit_tokens, 96U);
  EXPECT_EQ(pool.stats().query_tokens, 99U);
}

}  // namespace
}  // namespace tenon

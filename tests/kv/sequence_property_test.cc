// Random operations against a simple model of what must hold at every moment.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "engine/kv/sequence.h"
#include "kv/kv_bytes.h"

namespace tenon {
namespace {

constexpr uint64_t kDraft = 1000;  // origin of bytes that must never be found again

uint64_t OriginOf(const CacheScope& scope) {
  return scope.adapter * 10 + scope.salt.size();
}

class Workload {
 public:
  Workload(KvPool& pool, uint64_t seed) : pool_(pool), random_(seed) {}

  void Act() {
    switch (Pick(8)) {
      case 0:
        return Start();
      case 1:
        return Finish();
      case 2:
        return Truncate();
      case 3:
        return Fork();
      case 4:
        return Draft();
      default:
        return Grow();
    }
  }

  // Accounting, reference counts and every byte of every sequence.
  void Check() {
    std::map<BlockIndex, int32_t> expected;
    for (const Live& live : live_) {
      ASSERT_EQ(live.sequence.tokens().size(), live.tokens.size());
      ASSERT_TRUE(HoldsAll(pool_, live.sequence, OriginOf(live.scope)));
      for (const BlockIndex block : live.sequence.block_table())
        ++expected[block];
    }
    for (BlockIndex block = 0; block < pool_.config().blocks; ++block)
      ASSERT_EQ(pool_.RefCount(block), expected[block]) << "block " << block;
    std::erase_if(expected, [](const auto& entry) { return entry.second == 0; });
    const KvStats stats = pool_.stats();
    ASSERT_EQ(stats.free + stats.cached + stats.used, stats.total);
    ASSERT_EQ(stats.used, static_cast<int32_t>(expected.size()));
    ASSERT_EQ(pool_.available(), stats.free + stats.cached);
  }

  void FinishAll() { live_.clear(); }
  int waits() const { return waits_; }

 private:
  struct Live {
    Sequence sequence;
    CacheScope scope;
    std::vector<int32_t> tokens;  // the model's own copy
  };

  uint64_t Pick(uint64_t below) { return random_() % below; }
  Live* PickLive() { return live_.empty() ? nullptr : &live_[Pick(live_.size())]; }

  // Few different tokens in long runs, so that prefixes are often equal.
  std::vector<int32_t> Text(size_t length) {
    return std::vector<int32_t>(length, static_cast<int32_t>(Pick(2)));
  }

  void Start() {
    if (live_.size() > 5)
      return;
    const CacheScope scope{Pick(2), Pick(2) == 0 ? "" : "x"};
    Live live{
        Sequence(pool_, scope, Pick(6) == 0 ? PrefixCache::kOff : PrefixCache::kOn), scope, {}};
    std::vector<int32_t> prompt = Text(1 + Pick(100));
    const std::vector<int32_t> rest = Text(Pick(60));
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    const auto reused = static_cast<size_t>(live.sequence.MatchPrefix(prompt));
    ASSERT_LT(reused, prompt.size());
    live.tokens.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(reused));
    live_.push_back(std::move(live));
    Extend(live_.back(), std::span(prompt).subspan(reused));
  }

  void Extend(Live& live, std::span<const int32_t> tokens) {
    const auto table = live.sequence.block_table();
    const std::vector<BlockIndex> before(table.begin(), table.end());
    if (Step(pool_, live.sequence, tokens, OriginOf(live.scope)) == Reservation::kWait) {
      ++waits_;
      const auto after = live.sequence.block_table();
      ASSERT_TRUE(std::equal(before.begin(), before.end(), after.begin(), after.end()));
      return;
    }
    live.sequence.Commit();
    live.tokens.insert(live.tokens.end(), tokens.begin(), tokens.end());
  }

  void Grow() {
    if (Live* live = PickLive())
      Extend(*live, Text(1 + Pick(40)));
  }

  void Finish() {
    if (!live_.empty())
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(Pick(live_.size())));
  }

  void Truncate() {
    Live* live = PickLive();
    if (live == nullptr)
      return;
    live->tokens.resize(Pick(live->tokens.size() + 1));
    live->sequence.Truncate(static_cast<int64_t>(live->tokens.size()));
  }

  void Fork() {
    if (live_.empty() || live_.size() > 5)
      return;
    Live& parent = live_[Pick(live_.size())];
    Live fork{parent.sequence.Fork(), parent.scope, parent.tokens};
    live_.push_back(std::move(fork));
  }

  // Tokens with other bytes, taken back before anything is committed.
  void Draft() {
    Live* live = PickLive();
    if (live == nullptr)
      return;
    if (Step(pool_, live->sequence, Text(1 + Pick(50)), kDraft) == Reservation::kReady)
      live->sequence.Truncate(static_cast<int64_t>(live->tokens.size()));
  }

  KvPool& pool_;
  std::mt19937_64 random_;
  std::vector<Live> live_;
  int waits_ = 0;
};

void RunWorkload(KvPool& pool, uint64_t seed, int steps) {
  Workload workload(pool, seed);
  for (int step = 0; step < steps; ++step) {
    ASSERT_NO_FATAL_FAILURE(workload.Act()) << "seed " << seed << " step " << step;
    ASSERT_NO_FATAL_FAILURE(workload.Check()) << "seed " << seed << " step " << step;
  }
  workload.FinishAll();
  ASSERT_NO_FATAL_FAILURE(workload.Check());
  EXPECT_EQ(pool.stats().used, 0);
  EXPECT_GT(workload.waits(), 0) << "the pool never ran full: the test is too easy";
}

KvPool MakePool(int32_t blocks, KeyedHash hash) {
  KvConfig config = kBytesConfig;
  config.blocks = blocks;
  return std::move(KvPool::Create(config, hash)).value();
}

TEST(SequenceProperty, NothingLeaksAndNobodySeesOthersBytes) {
  for (const int32_t blocks : {5, 12, 20}) {
    KvPool pool = MakePool(blocks, SipHash24);
    ASSERT_NO_FATAL_FAILURE(RunWorkload(pool, static_cast<uint64_t>(blocks), 1500));
    const KvStats stats = pool.stats();
    EXPECT_GT(stats.hit_tokens, 0U);
    EXPECT_GT(stats.evictions, 0U);
    EXPECT_GT(stats.copies, 0U);
    pool.DropCached();
    EXPECT_EQ(pool.stats().free, blocks);
  }
}

// Hashes of two bits: nearly everything collides.
uint64_t TwoBits(const SipKey& key, std::span<const std::byte> bytes) {
  return SipHash24(key, bytes) & 3;
}

TEST(SequenceProperty, HoldsWithCollidingHashes) {
  KvPool pool = MakePool(12, TwoBits);
  RunWorkload(pool, 99, 1500);
  pool.DropCached();
  EXPECT_EQ(pool.stats().free, 12);
}

}  // namespace
}  // namespace tenon

// Saved sequences: what comes back, and what is refused.
#include "engine/kv/kv_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/file_io.h"

namespace tenon {
namespace {

constexpr KvConfig kConfig = {KvType::kF16, 2, 3, 8, 6};
constexpr int64_t kTokens = 40;  // a full block and a part of one
const KvFileIdentity kIdentity = {"sha256:abc", 7, 1000};

KvPool MakePool(const KvConfig& config = kConfig) {
  auto pool = KvPool::Create(config);
  EXPECT_TRUE(pool.ok());
  for (size_t i = 0; i < pool->bytes().size(); ++i)
    pool->bytes()[i] = static_cast<std::byte>(i * 31 % 251 + 1);  // never zero
  return std::move(*pool);
}

Sequence MakeSequence(KvPool& pool) {
  Sequence sequence(pool, CacheScope{7, "tenant"});
  std::vector<int32_t> tokens(kTokens);
  std::iota(tokens.begin(), tokens.end(), 100);
  EXPECT_TRUE(ReserveNow(sequence, kTokens).ok());
  sequence.Append(tokens);
  sequence.Commit();
  return sequence;
}

class KvFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) / (std::string(info->name()) + ".kv");
    Sequence sequence = MakeSequence(pool_);
    ASSERT_TRUE(SaveSequence(path_, pool_, sequence, kIdentity).ok());
    blocks_.assign(sequence.block_table().begin(), sequence.block_table().end());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  ErrorCode RestoreError(const KvFileIdentity& identity, KvPool pool = MakePool()) {
    const auto restored = RestoreSequence(path_, pool, {}, identity);
    EXPECT_FALSE(restored.ok());
    const KvStats stats = pool.stats();
    EXPECT_EQ(stats.free, stats.total);  // a refusal leaves nothing behind
    return restored.ok() ? ErrorCode::kInternal : restored.error().code;
  }

  KvPool pool_ = MakePool();
  std::filesystem::path path_;
  std::vector<BlockIndex> blocks_;
};

// fp16 elements: key of slot s, dimension d at [d][s]; value at [s][d].
uint16_t Element(const KvPool& pool, int32_t layer, BlockIndex block, size_t index) {
  uint16_t value = 0;
  std::memcpy(&value, pool.BlockBytes(layer, block).data() + 2 * index, 2);
  return value;
}

TEST_F(KvFileTest, BringsBackTokensAndKvAndNothingElse) {
  KvPool other = MakePool();
  std::ranges::fill(other.bytes(), std::byte{0xEE});
  const auto restored = RestoreSequence(path_, other, {7, "other"}, kIdentity);
  ASSERT_TRUE(restored.ok()) << restored.error().ToString();
  ASSERT_EQ(restored->length(), kTokens);
  EXPECT_EQ(restored->tokens().front(), 100);
  EXPECT_EQ(restored->tokens().back(), 139);
  for (int32_t layer = 0; layer < 2; ++layer) {
    EXPECT_TRUE(std::ranges::equal(other.BlockBytes(layer, restored->block_table()[0]),
                                   pool_.BlockBytes(layer, blocks_[0])));
    // The second block: slots 0 to 7 as they were, the others zero.
    for (size_t head = 0; head < 3; ++head) {
      for (size_t slot = 0; slot < 32; ++slot) {
        for (size_t d = 0; d < 8; ++d) {
          for (const size_t index : {head * 512 + d * 32 + slot, head * 512 + 256 + slot * 8 + d}) {
            const uint16_t saved = slot < 8 ? Element(pool_, layer, blocks_[1], index) : 0;
            ASSERT_EQ(Element(other, layer, restored->block_table()[1], index), saved)
                << layer << " " << head << " " << slot << " " << d;
          }
        }
      }
    }
  }
  // Found by the scope it was restored for, not by the one it was saved from.
  std::vector<BlockIndex> found;
  other.RetainPrefix({7, "tenant"}, restored->tokens(), found);
  EXPECT_TRUE(found.empty());
  other.RetainPrefix({7, "other"}, restored->tokens(), found);
  EXPECT_EQ(found.size(), 1U);
  for (const BlockIndex block : found)
    other.Release(block);
}

TEST_F(KvFileTest, AnotherModelAdapterOrLayoutIsRefused) {
  EXPECT_EQ(RestoreError({"sha256:abd", 7, 1000}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(RestoreError({"sha256:abc", 8, 1000}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(RestoreError({"sha256:abc", 7, 120}), ErrorCode::kCorrupt);  // token 120 and on
  for (KvConfig config : {KvConfig{KvType::kBF16, 2, 3, 8, 6}, KvConfig{KvType::kF16, 3, 3, 8, 6},
                          KvConfig{KvType::kF16, 2, 1, 8, 6}, KvConfig{KvType::kF16, 2, 3, 16, 6}})
    EXPECT_EQ(RestoreError(kIdentity, MakePool(config)), ErrorCode::kInvalidArgument);
}

TEST_F(KvFileTest, EveryDamagedByteAndEveryCutIsFound) {
  const std::string whole = *ReadWholeFile(path_, 1 << 20);
  for (size_t i = 0; i < whole.size(); i += i < 300 ? 1 : 97) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    ASSERT_TRUE(WriteFileAtomic(path_, damaged).ok());
    ASSERT_EQ(RestoreError(kIdentity), ErrorCode::kCorrupt) << i;
  }
  for (const size_t size : {size_t{0}, size_t{8}, size_t{16}, whole.size() / 2, whole.size() - 1}) {
    ASSERT_TRUE(WriteFileAtomic(path_, whole.substr(0, size)).ok());
    ASSERT_EQ(RestoreError(kIdentity), ErrorCode::kCorrupt) << size;
  }
}

TEST_F(KvFileTest, APoolWithoutRoomRefuses) {
  KvPool small = MakePool({KvType::kF16, 2, 3, 8, 2});
  Sequence other(small, {});
  ASSERT_TRUE(ReserveNow(other, 1).ok());
  const auto restored = RestoreSequence(path_, small, {}, kIdentity);
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(KvFileTest, AnEmptySequenceIsNotSaved) {
  EXPECT_EQ(SaveSequence(path_, pool_, Sequence(pool_, {}), kIdentity).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tenon

#include "engine/plan/weight_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hal/cpu/kernel_sets.h"
#include "hal/pack.h"
#include "quant/half.h"

namespace tenon {
namespace {

constexpr int64_t kRows = 40;
constexpr int64_t kColumns = 64;

using Halfs = std::vector<uint16_t>;

// Values with no more than a few bits.
Halfs ShortHalfs() {
  Halfs halfs;
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    halfs.push_back(F32ToF16(static_cast<float>(i % 97) / 64.0F - 0.7F));
  for (uint16_t& half : halfs)
    half &= 0xfff8;  // as much as BF16 has
  return halfs;
}

// The same with one value of more bits in the last row.
Halfs NearlyShortHalfs() {
  Halfs halfs = ShortHalfs();
  halfs.back() = 0x3fff;
  return halfs;
}

Halfs LongHalfs() {
  Halfs halfs = ShortHalfs();
  for (uint16_t& half : halfs)
    half |= 1;
  return halfs;
}

// F16 matrices [kRows, kColumns] in memory.
class HalfWeights final : public WeightSource {
 public:
  explicit HalfWeights(std::map<std::string, Halfs> tensors) : tensors_(std::move(tensors)) {}

  Result<WeightView> Find(std::string_view name) const override {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end())
      return NotFound("no such tensor", std::string(name));
    return WeightView{DType::kF16, kRows, kColumns, std::as_bytes(std::span(found->second))};
  }
  Status ReadAt(std::string_view name, uint64_t offset, std::span<std::byte> out) const override {
    TENON_ASSIGN_OR_RETURN(const WeightView view, Find(name));
    std::ranges::copy(view.bytes.subspan(offset, out.size()), out.begin());
    return {};
  }
  void Release(std::string_view, uint64_t, uint64_t) const override {}
  void ReleaseAll() const override {}

 private:
  std::map<std::string, Halfs> tensors_;
};

// Has nothing and remembers what it was asked.
class EmptyCache final : public WeightCache {
 public:
  std::optional<WeightImage> Find(std::string_view layout, uint64_t, ThreadPool&) override {
    asked.emplace_back(layout);
    return std::nullopt;
  }
  void Save(std::string_view layout, std::span<const std::byte> image) override {
    saved = layout;
    saved_bytes = image.size();
  }

  std::vector<std::string> asked;
  std::string saved;
  size_t saved_bytes = 0;
};

class WeightStoreTest : public testing::Test {
 protected:
  static WeightStore Prepare(const WeightSource& source, std::vector<std::string> names) {
    WeightStore::Names matrices;
    matrices.matrices = std::move(names);
    auto store = WeightStore::Prepare(source, matrices, kRefKernelSet, ActivationMode::kInt8);
    EXPECT_TRUE(store.ok());
    return *std::move(store);
  }
  // Every panel of a kI14S32 matrix is what the packer makes of the source's rows.
  static void ExpectPacked(const WeightSource& source, const WeightStore& store,
                           const std::string& name) {
    const PackedMatrix& matrix = *store.FindMatrix(name);
    const auto rows = source.Find(name)->bytes;
    ASSERT_EQ(matrix.kind, PackedKind::kI14S32);
    for (int64_t panel = 0; panel < matrix.panels(); ++panel) {
      std::vector<std::byte> expected(static_cast<size_t>(matrix.panel_bytes));
      const int64_t first = panel * kPanelRows;
      PackPanel({DType::kF16, rows.data() + first * kColumns * 2,
                 std::min(kPanelRows, kRows - first), kColumns},
                expected);
      EXPECT_TRUE(std::ranges::equal(
          expected, std::span(matrix.Panel(0, panel), static_cast<size_t>(matrix.panel_bytes))))
          << name << " panel " << panel;
    }
  }

  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Create(2);
};

TEST_F(WeightStoreTest, F16OfFewBitsTakes12) {
  const HalfWeights source({{"a", ShortHalfs()}});
  WeightStore store = Prepare(source, {"a"});
  ASSERT_TRUE(store.Load(source, *pool_).ok());
  const PackedMatrix& matrix = *store.FindMatrix("a");
  EXPECT_EQ(matrix.kind, PackedKind::kF12S32);
  EXPECT_EQ(matrix.panel_bytes, 2 * 784);
  EXPECT_EQ(matrix.gemm, kRefKernelSet.gemm[static_cast<size_t>(PackedKind::kF12S32)]);
}

TEST_F(WeightStoreTest, F16OfManyBitsTakes16) {
  const HalfWeights source({{"a", LongHalfs()}});
  WeightStore store = Prepare(source, {"a"});
  EXPECT_EQ(store.FindMatrix("a")->kind, PackedKind::kI14S32);
  ASSERT_TRUE(store.Load(source, *pool_).ok());
  ExpectPacked(source, store, "a");
}

// One row is all that Prepare sees: what does not fit is found when it is packed, and nothing is
// lost.
TEST_F(WeightStoreTest, AWrongGuessIsMended) {
  const HalfWeights source({{"a", ShortHalfs()}, {"b", NearlyShortHalfs()}, {"c", ShortHalfs()}});
  WeightStore store = Prepare(source, {"a", "b", "c"});
  EXPECT_EQ(store.FindMatrix("b")->kind, PackedKind::kF12S32);
  const int64_t guessed = store.bytes();
  ASSERT_TRUE(store.Load(source, *pool_).ok());
  EXPECT_GT(store.bytes(), guessed);
  for (const std::string name : {"a", "b", "c"})
    ExpectPacked(source, store, name);
}

TEST_F(WeightStoreTest, TheNextStartAsksForWhatWasSavedAfterAWrongGuess) {
  const HalfWeights source({{"a", ShortHalfs()}, {"b", NearlyShortHalfs()}});
  EmptyCache cache;
  for (int start = 0; start < 2; ++start) {
    WeightStore store = Prepare(source, {"a", "b"});
    ASSERT_TRUE(store.Load(source, *pool_, &cache).ok());
    EXPECT_EQ(cache.saved_bytes, static_cast<size_t>(store.bytes()));
  }
  ASSERT_EQ(cache.asked.size(), 4U);
  EXPECT_NE(cache.asked[2], cache.saved);
  EXPECT_EQ(cache.asked[3], cache.saved);
}

}  // namespace
}  // namespace tenon

#include "hal/kernel_test_support.h"
#include "hal/pack.h"
#include "quant/activation_round.h"
#include "quant/quantized_matrix.h"

namespace tenon::kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct QuantizedRow {
  std::vector<int8_t> q;
  std::vector<WholeBlock> blocks;
  std::vector<GroupsBlock> groups;
  Bytes bytes;
  // What a level of value i stands for.
  float Step(size_t i) const { return groups[i / 32].step[i % 32 / 16]; }
};

QuantizedRow QuantizeBy(QuantizeRowFn quantize, const Floats& x) {
  const auto k = static_cast<int64_t>(x.size());
  QuantizedRow row;
  row.bytes.resize(static_cast<size_t>(ActivationRowBytes(ActivationForm::kInt8, k)));
  quantize(x.data(), k, row.bytes.data());
  for (int64_t b = 0; b < k / 32; ++b) {
    row.blocks.push_back(LoadAs<WholeBlock>(row.bytes.data() + b * kWholeBlockBytes));
    row.groups.push_back(
        LoadAs<GroupsBlock>(row.bytes.data() + GroupsBlocksOffset(k) + b * kGroupsBlockBytes));
    const GroupsBlock& block = row.groups.back();
    row.q.insert(row.q.end(), std::begin(block.q), std::end(block.q));
  }
  return row;
}

QuantizedRow Quantize(const KernelSet& set, const Floats& x) {
  return QuantizeBy(set.quantize_row, x);
}

TEST(QuantizeRow, BlocksKeepToTheirDefinition) {
  Random random(1);
  const Floats x = random.Normals(1536);
  const QuantizedRow row = Quantize(kRefKernelSet, x);
  for (size_t b = 0; b < row.blocks.size(); ++b) {
    const WholeBlock& block = row.blocks[b];
    const GroupsBlock& groups = row.groups[b];
    int totals[2] = {};
    for (size_t i = b * 32; i < b * 32 + 32; ++i) {
      // Half a step, and the rounding of the factors.
      EXPECT_NEAR(static_cast<float>(row.q[i]) * row.Step(i), x[i], row.Step(i) * 0.5001f);
      totals[i % 32 / 16] += row.q[i];
      const size_t pair = i % 16 / 2 * 4 + i % 32 / 16 * 2 + i % 2;
      EXPECT_EQ(block.pairs[pair], row.q[i]);
    }
    const int whole = block.multiplier[0] * totals[0] + block.multiplier[1] * totals[1];
    EXPECT_EQ(block.sum, block.scale * static_cast<float>(whole));
    for (size_t g = 0; g < 2; ++g) {
      EXPECT_EQ(groups.step[g], block.scale * static_cast<float>(block.multiplier[g]));
      EXPECT_EQ(groups.sum[g], groups.step[g] * static_cast<float>(totals[g]));
    }
    EXPECT_EQ(std::max(block.multiplier[0], block.multiplier[1]), kMaxMultiplier);
  }
}

// A step is the least multiple of the block's scale that reaches the group's largest value: at most
// one 127th of it and one scale.
TEST(QuantizeRow, EachGroupHasAStepOfItsOwn) {
  Random random(6);
  for (const float second : {1.0f, 0.1f, 0.01f, 0.001f, 0.0f}) {
    Floats x = random.Normals(32);
    std::for_each(x.begin() + 16, x.end(), [second](float& v) { v *= second; });
    const QuantizedRow row = Quantize(kRefKernelSet, x);
    for (size_t g = 0; g < 2; ++g) {
      float largest = 0;
      for (size_t i = g * 16; i < g * 16 + 16; ++i)
        largest = std::max(largest, std::abs(x[i]));
      EXPECT_GE(row.Step(g * 16) * 1.000001f, largest / 127.0f);
      EXPECT_LE(row.Step(g * 16), largest / 127.0f * 1.000001f + row.blocks[0].scale);
    }
  }
}

TEST(QuantizeRow, TiesGoToEven) {
  Floats x(32);
  x[0] = 127.0f;
  x[1] = 2.5f;
  x[2] = 3.5f;
  x[3] = -2.5f;
  x[4] = -3.5f;
  x[5] = 0.5f;
  x[6] = -127.0f;
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->quantize_row_per_token == nullptr)
      continue;
    // One scale of exactly 1 for the row.
    const QuantizedRow row = QuantizeBy(set->quantize_row_per_token, x);
    EXPECT_EQ(std::vector<int8_t>(row.q.begin(), row.q.begin() + 7),
              (std::vector<int8_t>{127, 2, 4, -2, -4, 0, -127}))
        << set->name;
    EXPECT_EQ(row.blocks[0].scale, 1.0f);
    EXPECT_EQ(row.blocks[0].sum, 0.0f);
  }
}

TEST(QuantizeRow, EdgesOfTheRange) {
  Floats x(32 * 4);
  std::fill_n(x.begin() + 32, 16, 0x1p-149f);
  std::fill_n(x.begin() + 64, 16, 0x1p-100f);  // the least that is not taken for zero
  std::fill_n(x.begin() + 80, 16, 0x1p-140f);
  std::fill_n(x.begin() + 96, 32, std::numeric_limits<float>::max());
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->quantize_row == nullptr)
      continue;
    const QuantizedRow row = Quantize(*set, x);
    EXPECT_EQ(row.blocks[0].scale, 0.0f);
    EXPECT_EQ(row.blocks[1].scale, 0.0f);
    EXPECT_EQ(row.q[32], 0) << set->name;
    EXPECT_EQ(row.q[64], 127) << set->name;
    EXPECT_EQ(row.q[80], 0) << set->name;
    EXPECT_EQ(row.q[96], 127) << set->name;
    EXPECT_TRUE(std::isfinite(row.blocks[3].scale)) << set->name;
  }
}

TEST(QuantizeRow, NanReachesTheScaleAndQuantsStayInRange) {
  for (const size_t place : {0, 5, 8, 15, 16, 31}) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      Floats x(64, 1.0f);
      x[place] = bad;
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->quantize_row == nullptr)
          continue;
        const QuantizedRow row = Quantize(*set, x);
        EXPECT_TRUE(std::isnan(row.blocks[0].scale)) << set->name;
        EXPECT_TRUE(std::isnan(row.blocks[0].sum)) << set->name;
        EXPECT_TRUE(std::isnan(row.groups[0].sum[0] + row.groups[0].sum[1])) << set->name;
        EXPECT_EQ(row.blocks[1].multiplier[0], kMaxMultiplier);
        for (const int8_t q : row.q)
          EXPECT_GE(q, -127) << set->name;
      }
    }
  }
}

TEST(QuantizeRow, EverySetEqualsReferenceBitForBit) {
  Random random(2);
  for (const int64_t k : {32, 64, 96, 576, 1536}) {
    for (const float growth : {0.25f, 4.0f}) {
      Floats x = random.Normals(k);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] *= std::exp2(static_cast<float>(i / 16) * growth - 106.0f);
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->quantize_row == nullptr)
          continue;
        EXPECT_EQ(Quantize(*set, x).bytes, Quantize(kRefKernelSet, x).bytes)
            << set->name << " k " << k;
      }
    }
  }
}

// Block by block, in any order, a row is what it is at once.
TEST(QuantizeBlock, MakesRowsPieceByPiece) {
  Random random(7);
  constexpr int64_t k = 96;
  Floats x = random.Normals(k);
  x[40] = kNan;
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->quantize_block == nullptr)
      continue;
    Bytes row(static_cast<size_t>(ActivationRowBytes(ActivationForm::kInt8, k)));
    for (const int64_t block : {2, 0, 1})
      set->quantize_block(x.data() + block * 32, row.data(), k, block);
    EXPECT_EQ(row, Quantize(kRefKernelSet, x).bytes) << set->name;
  }
}

TEST(QuantizeRowPerToken, IsTheRoundingThatQuantizersReckonWith) {
  Random random(3);
  for (const float size : {1.0f, 1e-7f, 0.0f}) {
    Floats x = random.Normals(576);
    for (float& value : x)
      value *= size;
    Floats rounded = x;
    RoundActivationRow(rounded);
    for (const KernelSet* set : RunnableKernelSets()) {
      if (set->quantize_row_per_token == nullptr)
        continue;
      const QuantizedRow row = QuantizeBy(set->quantize_row_per_token, x);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(row.Step(i), row.Step(0));
        ASSERT_EQ(static_cast<float>(row.q[i]) * row.Step(i), rounded[i]) << set->name;
      }
    }
  }
}

TEST(QuantizeRowPerToken, EverySetEqualsReferenceBitForBit) {
  Random random(4);
  for (const int64_t k : {32, 96, 576, 1536}) {
    for (const float bad : {0.0f, kNan, -kInfinity}) {
      Floats x = random.Normals(k);
      x.back() = bad;
      const QuantizeRowFn reference = kRefKernelSet.quantize_row_per_token;
      const QuantizedRow expected = QuantizeBy(reference, x);
      EXPECT_EQ(std::isfinite(expected.blocks[0].scale), bad == 0.0f);
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->quantize_row_per_token == nullptr)
          continue;
        EXPECT_EQ(QuantizeBy(set->quantize_row_per_token, x).bytes, expected.bytes) << set->name;
      }
    }
  }
}

// W8A8: weights with one scale a row, activations with one scale a row, multiplied by the integer
// kernels, against the same levels in double. What may differ is the rounding of k / 32 products
// of scales and integers, and of as many zero-point terms, each at most 128 d s sum|q|.
TEST(QuantizeRowPerToken, IntegerKernelsGiveTheProductOfTheRoundedRows) {
  constexpr int64_t kRows = 16;
  constexpr int64_t kWidth = 576;
  Random random(5);
  const Floats x = random.Normals(kWidth);
  Bytes file(static_cast<size_t>(kRows * DTypeRowBytes(DType::kQ8_0, kWidth)));
  const GridSpec grid = *MakeGrid(DType::kQ8_0, 8, 0, ScaleRule::kRange);
  const Floats importance(kWidth, 1.0f);
  QuantizedMatrix levels(grid, kRows, kWidth);
  for (int64_t r = 0; r < kRows; ++r) {
    const Floats w = random.Normals(kWidth);
    levels.BeginGroup(r, 0, w, importance);
    for (int64_t i = 0; i < kWidth; ++i)
      levels.Round(r, i, w[static_cast<size_t>(i)]);
    const int64_t bytes = DTypeRowBytes(DType::kQ8_0, kWidth);
    levels.EncodeRow(
        r, std::span(file).subspan(static_cast<size_t>(r * bytes), static_cast<size_t>(bytes)));
  }
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kU8S32, kWidth)));
  PackPanel({DType::kQ8_0, file.data(), kRows, kWidth}, panel);
  for (const KernelSet* set : RunnableKernelSets()) {
    const GemmFn gemm = set->gemm[static_cast<size_t>(PackedKind::kU8S32)];
    if (set->quantize_row_per_token == nullptr || gemm == nullptr)
      continue;
    const QuantizedRow row = QuantizeBy(set->quantize_row_per_token, x);
    Floats out(kRows);
    gemm({panel.data(), kWidth, row.bytes.data(), static_cast<int64_t>(row.bytes.size()), 1,
          nullptr, out.data(), kRows});
    for (int64_t r = 0; r < kRows; ++r) {
      double exact = 0.0;
      double largest_terms = 0.0;
      const double scale = static_cast<double>(levels.ScaleAt(r, 0).scale) * row.Step(0);
      for (int64_t i = 0; i < kWidth; ++i) {
        exact += scale * levels.LevelAt(r, i) * row.q[static_cast<size_t>(i)];
        largest_terms += scale * 256.0 * std::abs(row.q[static_cast<size_t>(i)]);
      }
      const double terms = 2.0 * kWidth / 32.0 + 3.0;
      EXPECT_NEAR(out[static_cast<size_t>(r)], exact, 0x1p-24 * terms * largest_terms) << set->name;
    }
  }
}

// One block of 16 bits, by the words of hal/kernel_set.h.
void ExpectWideBlock(const Floats& x, int64_t index, const WideBlock& block) {
  float range = 0.0f;
  for (int64_t i = index * 32; i < index * 32 + 32; ++i)
    range = std::max(range, std::abs(x[static_cast<size_t>(i)]));
  if (range < kLeastBlockRange) {
    EXPECT_EQ(block.scale, 0.0f);
    range = std::numeric_limits<float>::infinity();  // all levels zero
  } else {
    EXPECT_EQ(block.scale, range * (1.0f / 8191.0f));
  }
  for (int64_t i = 0; i < 32; ++i) {
    const float exact = x[static_cast<size_t>(index * 32 + i)] * (8191.0f / range);
    EXPECT_EQ(block.q[i], static_cast<int16_t>(std::nearbyint(exact))) << "value " << i;
  }
}

TEST(QuantizeWide, LevelsAreNearestMultiplesOfTheScale) {
  Random random(11);
  constexpr int64_t k = 32 * 40;
  Floats x = random.Normals(k);
  for (int64_t block = 0; block < 40; block += 3) {
    const float size = std::ldexp(1.0f, static_cast<int>(random.Integer(-140, 100)));
    for (int64_t i = block * 32; i < block * 32 + 32; ++i)
      x[static_cast<size_t>(i)] *= size;
  }
  x[5] = x[7] = 0.0f;
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->quantize_wide_row == nullptr)
      continue;
    SCOPED_TRACE(set->name);
    Bytes row(static_cast<size_t>(ActivationRowBytes(ActivationForm::kInt16, k)));
    set->quantize_wide_row(x.data(), k, row.data());
    Bytes blocks(row.size());
    for (int64_t b = 0; b < k / 32; ++b) {
      set->quantize_wide_block(x.data() + b * 32, blocks.data(), k, b);
      ExpectWideBlock(x, b, LoadAs<WideBlock>(row.data() + b * 68));
    }
    EXPECT_EQ(blocks, row);
  }
}

TEST(QuantizeWide, WhatIsNotFiniteMakesTheScaleNan) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    Floats x(64, 1.0f);
    x[40] = value;
    for (const KernelSet* set : RunnableKernelSets()) {
      if (set->quantize_wide_row == nullptr)
        continue;
      Bytes row(2 * sizeof(WideBlock), std::byte{0xff});
      set->quantize_wide_row(x.data(), 64, row.data());
      ExpectWideBlock(x, 0, LoadAs<WideBlock>(row.data()));
      const auto block = LoadAs<WideBlock>(row.data() + sizeof(WideBlock));
      EXPECT_TRUE(std::isnan(block.scale)) << set->name;
      for (const int16_t q : block.q)
        EXPECT_EQ(q, 0) << set->name;
    }
  }
}

}  // namespace
}  // namespace tenon::kernel_test

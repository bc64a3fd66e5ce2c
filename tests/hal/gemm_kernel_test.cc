#include "hal/kernel_test_support.h"

namespace tenon::kernel_test {
namespace {

constexpr int64_t kTokenCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 64};

std::vector<int64_t> Lengths(PackedKind kind) {
  if (IsQuantizedKind(kind))
    return {32, 64, 96, 576, 1536};
  return {1, 7, 33, 576};
}

constexpr float kUntouched = -12345.0f;  // what lies between output rows

struct GemmCase {
  PackedKind kind;
  int64_t k;
  const Bytes& panel;
  const Activations& x;
};

Floats RunGemm(const KernelSet& set, const GemmCase& input, int64_t tokens) {
  constexpr int64_t kStride = 19;
  Floats out(static_cast<size_t>(tokens * kStride), kUntouched);
  set.gemm[static_cast<size_t>(input.kind)]({.panel = input.panel.data(),
                                             .k = input.k,
                                             .activations = input.x.bytes.data(),
                                             .activation_stride = input.x.stride,
                                             .tokens = tokens,
                                             .codebook = kTestCodebook,
                                             .out = out.data(),
                                             .out_stride = kStride});
  Floats rows;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < kStride; ++i) {
      const float value = out[static_cast<size_t>(t * kStride + i)];
      if (i < kPanelRows)
        rows.push_back(value);
      else
        EXPECT_EQ(value, kUntouched) << "written past the row of token " << t;
    }
  }
  return rows;
}

// The exact result, and the sum of the absolute values of the terms that are added up.
struct ExactDot {
  double value = 0;
  double magnitude = 0;
  int64_t terms = 0;
};

void AddQuantizedGroup(const GemmCase& input, const std::byte* row, int64_t r, int64_t group,
                       ExactDot* dot) {
  const auto block = LoadAs<GroupsBlock>(row + GroupsBlocksOffset(input.k) +
                                         group / 2 * static_cast<int64_t>(sizeof(GroupsBlock)));
  double products = 0;
  double minima = 0;
  for (int64_t i = group * 16; i < group * 16 + 16; ++i) {
    const PanelValue w = QuantizedAt(input.kind, input.panel.data(), r, i, kTestCodebook);
    const double x = static_cast<double>(block.step[group % 2]) * block.q[i % 32];
    products += static_cast<double>(w.d) * w.q * x;
    minima += static_cast<double>(w.m) * x;
  }
  dot->value += products + minima;
  dot->magnitude += std::abs(products) + std::abs(minima);
  dot->terms += 2;
}

void AddWideBlock(const GemmCase& input, const std::byte* row, int64_t r, int64_t index,
                  ExactDot* dot) {
  const auto block = LoadAs<WideBlock>(row + index * static_cast<int64_t>(sizeof(WideBlock)));
  double products = 0;
  for (int64_t i = 0; i < 32; ++i) {
    const PanelValue w = LevelAt(input.kind, input.panel.data(), r, index * 32 + i);
    products += static_cast<double>(w.d) * w.q * static_cast<double>(block.scale) * block.q[i];
  }
  dot->value += products;
  dot->magnitude += std::abs(products);
  ++dot->terms;
}

ExactDot Exact(const GemmCase& input, const std::byte* row, int64_t r) {
  ExactDot dot;
  if (FormFor(input.kind) == ActivationForm::kInt16) {
    for (int64_t block = 0; block < input.k / 32; ++block)
      AddWideBlock(input, row, r, block, &dot);
    return dot;
  }
  if (IsQuantizedKind(input.kind)) {
    for (int64_t group = 0; group < input.k / 16; ++group)
      AddQuantizedGroup(input, row, r, group, &dot);
    return dot;
  }
  for (int64_t i = 0; i < input.k; ++i) {
    const double product = FloatWeightAt(input.kind, input.panel.data(), r, i) *
                           static_cast<double>(LoadAs<float>(row + i * 4));
    dot.value += product;
    dot.magnitude += std::abs(product);
    ++dot.terms;
  }
  return dot;
}

class GemmKernels : public testing::TestWithParam<int> {
 protected:
  PackedKind kind() const { return static_cast<PackedKind>(GetParam()); }
  GemmFn Of(const KernelSet& set) const { return set.gemm[GetParam()]; }
};

// Each of n fmas rounds once, a term's factors at most three times (a step, a product with it,
// an integer): |error| <= (n + 4) u sum|terms|, and the partial sums are at most sum|terms|. u =
// 2^-24.
double ErrorBound(const ExactDot& dot) {
  return static_cast<double>(dot.terms + 4) * 0x1p-24 * dot.magnitude;
}

TEST_P(GemmKernels, ReferenceMatchesDoublePrecision) {
  Random random(1);
  for (const int64_t k : Lengths(kind())) {
    const Bytes panel = RandomPanel(kind(), k, &random);
    const Activations x = RandomActivations(kind(), k, 3, &random);
    const GemmCase input = {kind(), k, panel, x};
    const Floats out = RunGemm(kRefKernelSet, input, 3);
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t r = 0; r < kPanelRows; ++r) {
        const ExactDot dot = Exact(input, x.bytes.data() + t * x.stride, r);
        EXPECT_NEAR(out[static_cast<size_t>(t * kPanelRows + r)], dot.value, ErrorBound(dot))
            << "k " << k << " token " << t << " row " << r;
      }
    }
  }
}

TEST_P(GemmKernels, EverySetEqualsReferenceBitForBit) {
  Random random(2);
  for (const int64_t k : Lengths(kind())) {
    const Bytes panel = RandomPanel(kind(), k, &random);
    const Activations x = RandomActivations(kind(), k, 64, &random);
    const GemmCase input = {kind(), k, panel, x};
    const Floats all = RunGemm(kRefKernelSet, input, 64);
    for (const KernelSet* set : RunnableKernelSets()) {
      if (Of(*set) == nullptr)
        continue;
      for (const int64_t tokens : kTokenCounts) {
        const Floats expected(all.begin(), all.begin() + tokens * kPanelRows);
        EXPECT_EQ(FirstDifference(expected, RunGemm(*set, input, tokens)), "")
            << set->name << " k " << k << " tokens " << tokens;
      }
    }
  }
}

// The lowest or the highest level everywhere.
Bytes FilledWidePanel(int64_t k, std::byte fill) {
  const int64_t level = fill == std::byte{0} ? -kMostWideLevel : kMostWideLevel;
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kI14S32, k)));
  for (int64_t i = 0; i < k * 16; ++i)
    StoreWideWord(panel.data(), i % 16, i / 16, WideWord(level, 126, i / 16));
  return panel;
}

Bytes FilledF12Panel(int64_t k, std::byte fill) {
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kF12S32, k)), std::byte{0xff});
  for (int64_t b = 0; b < k / 32; ++b) {
    std::byte* block = panel.data() + b * PackedBlockBytes(PackedKind::kF12S32);
    std::memset(block + 512, fill == std::byte{0} ? 0xdd : 0x55, 256);  // shift 5
    std::memset(block + 768, 126, 16);
  }
  return panel;
}

// A panel whose quants are all bits `fill`, with d and m of 0.5.
Bytes FilledPanel(PackedKind kind, int64_t k, std::byte fill) {
  if (kind == PackedKind::kI14S32)
    return FilledWidePanel(k, fill);
  if (kind == PackedKind::kF12S32)
    return FilledF12Panel(k, fill);
  Bytes panel(static_cast<size_t>(PackedPanelBytes(kind, k)), fill);
  const int64_t block_bytes = PackedBlockBytes(kind);
  for (int64_t block = 0; block < k / 32; ++block) {
    std::byte* at = panel.data() + block * block_bytes;
    for (int64_t i = QuantBytes(kind); i < block_bytes; i += 2)
      StoreAs(at + i, F32ToF16(0.5f));
    for (int64_t i = QuantBytes(kind); kind == PackedKind::kCodebook4S32 && i < block_bytes; i += 4)
      StoreAs(at + i, 0.5f);
  }
  return panel;
}

class QuantizedGemmKernels : public GemmKernels {};

// All quants at their limits, activations at the ends of their range and multipliers at the
// largest: a sum that saturates or overflows would show.
TEST_P(QuantizedGemmKernels, ExtremesDoNotSaturate) {
  constexpr int64_t k = 96;
  constexpr int64_t tokens = 8;
  Floats x(k * tokens);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i / k % 2 == 0 ? 127.0f : (i % 2 == 0 ? -127.0f : -126.0f);
  const Activations rows = MakeActivations(kind(), x, k, tokens);
  for (const int fill : {0x00, 0xff}) {
    const Bytes panel = FilledPanel(kind(), k, static_cast<std::byte>(fill));
    for (const KernelSet* set : RunnableKernelSets()) {
      if (Of(*set) == nullptr)
        continue;
      const GemmCase input = {kind(), k, panel, rows};
      const Floats out = RunGemm(*set, input, tokens);
      for (size_t i = 0; i < out.size(); ++i) {
        const auto t = static_cast<int64_t>(i) / kPanelRows;
        const ExactDot dot = Exact(input, rows.bytes.data() + t * rows.stride, 0);
        EXPECT_NEAR(out[i], dot.value, ErrorBound(dot)) << set->name << " token " << t;
      }
    }
  }
}

TEST_P(GemmKernels, ZeroActivationsGiveZero) {
  Random random(3);
  constexpr int64_t k = 64;
  const Bytes panel = RandomPanel(kind(), k, &random);
  const Activations x = MakeActivations(kind(), Floats(k * 5), k, 5);
  for (const KernelSet* set : RunnableKernelSets()) {
    if (Of(*set) == nullptr)
      continue;
    for (const float value : RunGemm(*set, {kind(), k, panel, x}, 5))
      EXPECT_EQ(value, 0.0f) << set->name;
  }
}

// A NaN in one group of one token reaches that token's outputs and no other's.
TEST_P(GemmKernels, NanStaysInItsToken) {
  Random random(4);
  constexpr int64_t k = 64;
  const Bytes panel = RandomPanel(kind(), k, &random);
  Floats values = random.Normals(k * 7);
  values[k * 3 + 21] = std::numeric_limits<float>::quiet_NaN();
  const Activations x = MakeActivations(kind(), values, k, 7);
  for (const KernelSet* set : RunnableKernelSets()) {
    if (Of(*set) == nullptr)
      continue;
    const Floats out = RunGemm(*set, {kind(), k, panel, x}, 7);
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(std::isnan(out[i]), i / kPanelRows == 3) << set->name << " output " << i;
  }
}

std::string KindName(const testing::TestParamInfo<int>& param) {
  return kKindNames[param.param];
}

INSTANTIATE_TEST_SUITE_P(Kinds, GemmKernels, testing::Range(0, kPackedKindCount), KindName);
INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedGemmKernels,
                         testing::Range(static_cast<int>(PackedKind::kI14S32), kPackedKindCount),
                         KindName);

}  // namespace
}  // namespace tenon::kernel_test

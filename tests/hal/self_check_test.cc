#include "hal/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "hal/kernel_registry.h"

namespace tenon {
namespace {

using testing::HasSubstr;

KernelSet BestSet() {
  return FillHoles(RunnableKernelSets());
}

const KernelSet& RefSet() {
  return *RunnableKernelSets().back();
}

TEST(SelfCheck, EverySetOfThisMachinePasses) {
  const auto sets = RunnableKernelSets();
  for (size_t i = 0; i < sets.size(); ++i) {
    const Status status = SelfCheck(FillHoles(sets.subspan(i)));
    EXPECT_TRUE(status.ok()) << sets[i]->name << ": " << status.error().ToString();
  }
}

// Broken kernels: right but for one output.
template <int kKind>
void GemmWithOneWrongOutput(const GemmArgs& args) {
  RefSet().gemm[kKind](args);
  args.out[(args.tokens - 1) * args.out_stride + 7] += 1e-3f;
}

template <int kType>
void AttentionWithOneWrongOutput(const AttentionArgs& args) {
  RefSet().attention[kType](args);
  args.out[args.heads * args.head_dim - 1] *= 1.0001f;
}

void RoundTowardsZero(const float* x, int64_t k, std::byte* out) {
  RefSet().quantize_row(x, k, out);
  auto* q = reinterpret_cast<int8_t*>(out);
  q[5] = static_cast<int8_t>(q[5] - 1);
}

void ExpectFailure(const KernelSet& set, const char* kernel) {
  const Status status = SelfCheck(set);
  ASSERT_FALSE(status.ok()) << kernel;
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
  EXPECT_THAT(status.error().message, HasSubstr(kernel));
  EXPECT_THAT(status.error().where, HasSubstr(set.name));
}

TEST(SelfCheck, FindsABrokenMatrixProduct) {
  KernelSet set = BestSet();
  set.gemm[static_cast<int>(PackedKind::kU6S16)] =
      GemmWithOneWrongOutput<static_cast<int>(PackedKind::kU6S16)>;
  ExpectFailure(set, "matrix product of u6 s16");
  set = BestSet();
  set.gemm[static_cast<int>(PackedKind::kCodebook4S32)] =
      GemmWithOneWrongOutput<static_cast<int>(PackedKind::kCodebook4S32)>;
  ExpectFailure(set, "matrix product of codebook4 s32");
  set = BestSet();
  set.gemm[static_cast<int>(PackedKind::kF16)] =
      GemmWithOneWrongOutput<static_cast<int>(PackedKind::kF16)>;
  ExpectFailure(set, "matrix product of f16");
}

TEST(SelfCheck, FindsBrokenAttention) {
  KernelSet set = BestSet();
  set.attention[static_cast<int>(KvType::kBF16)] =
      AttentionWithOneWrongOutput<static_cast<int>(KvType::kBF16)>;
  ExpectFailure(set, "attention over bf16");
}

TEST(SelfCheck, FindsBrokenQuantization) {
  KernelSet set = BestSet();
  set.quantize_row = RoundTowardsZero;
  ExpectFailure(set, "quantization of activations");
  set = BestSet();
  set.quantize_block = [](const float* x, std::byte* row, int64_t k, int64_t) {
    RefSet().quantize_block(x, row, k, 0);
  };
  ExpectFailure(set, "quantization of activations");
}

// A kernel of another kind in the slot: what a mistake in a set's table would be.
TEST(SelfCheck, FindsSwappedEntries) {
  KernelSet set = BestSet();
  std::swap(set.gemm[static_cast<int>(PackedKind::kF16)],
            set.gemm[static_cast<int>(PackedKind::kBF16)]);
  ExpectFailure(set, "matrix product of f16");
}

// The panels must hold finite values, or a comparison would compare NaNs.
TEST(SelfCheck, FindsAZeroResult) {
  for (int kind = 0; kind < kPackedKindCount; ++kind) {
    KernelSet set = BestSet();
    set.gemm[kind] = [](const GemmArgs& args) {
      for (int64_t t = 0; t < args.tokens; ++t)
        std::fill_n(args.out + t * args.out_stride, kPanelRows, 0.0f);
    };
    ExpectFailure(set, "matrix product");
  }
}

}  // namespace
}  // namespace tenon

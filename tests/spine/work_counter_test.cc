// The work of one step, in kernel calls and bytes of weights: a change that makes a token dearer
// shows here on any machine, without a clock.
#include <atomic>

#include "frontend/session/source_weights.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"
#include "test_model.h"

namespace tenon {
namespace {

struct Work {
  std::atomic<int64_t> panels{0};
  std::atomic<int64_t> weight_bytes{0};
  std::atomic<int64_t> norms{0};
  std::atomic<int64_t> quantized_values{0};
  std::atomic<int64_t> attentions{0};
};
Work work;
KernelSet real;

template <int kKind>
void CountedGemm(const GemmArgs& args) {
  work.panels += 1;
  work.weight_bytes += PackedPanelBytes(static_cast<PackedKind>(kKind), args.k);
  real.gemm[kKind](args);
}

template <int... kKinds>
void CountGemms(KernelSet& set, std::integer_sequence<int, kKinds...>) {
  ((set.gemm[kKinds] = set.gemm[kKinds] == nullptr ? nullptr : CountedGemm<kKinds>), ...);
}

KernelSet CountingKernels() {
  auto resolved = ResolveKernelSet(RunnableKernelSets().front()->name);
  EXPECT_TRUE(resolved.ok());
  real = *resolved;
  KernelSet set = real;
  CountGemms(set, std::make_integer_sequence<int, kPackedKindCount>());
  set.rms_norm = [](const float* x, const float* weight, int64_t n, float eps, float* out) {
    work.norms += 1;
    real.rms_norm(x, weight, n, eps, out);
  };
  set.quantize_block = [](const float* x, std::byte* row, int64_t k, int64_t index) {
    work.quantized_values += kActivationBlockValues;
    real.quantize_block(x, row, k, index);
  };
  set.quantize_row = [](const float* x, int64_t k, std::byte* out) {
    work.quantized_values += k;
    real.quantize_row(x, k, out);
  };
  set.attention[static_cast<int>(KvType::kF16)] = [](const AttentionArgs& args) {
    work.attentions += 1;
    real.attention[static_cast<int>(KvType::kF16)](args);
  };
  return set;
}

void Reset() {
  work.panels = work.weight_bytes = work.norms = work.quantized_values = work.attentions = 0;
}

class WorkCounterTest : public testing::Test {
 protected:
  void SetUp() override {
    auto path = ResolveModel(kSmolLm);
    if (!path.ok())
      GTEST_SKIP() << "the model " << kSmolLm << " is not in the store";
    auto source = OpenModel(*path);
    ASSERT_TRUE(source.ok());
    source_ = std::move(*source);
    weights_ = std::make_unique<SourceWeights>(source_);
    auto graph = BuildGraph(source_);
    ASSERT_TRUE(graph.ok());
    RunnerOptions options;
    options.kv_tokens = 1024;
    options.plan.max_tokens = 16;
    options.plan.max_outputs = 16;
    auto runner = ModelRunner::Prepare(std::move(*graph), *weights_, CountingKernels(), options);
    ASSERT_TRUE(runner.ok()) << runner.error().ToString();
    runner_ = std::move(*runner);
    auto pool = ThreadPool::Create(2);
    ASSERT_TRUE(pool.ok());
    pool_ = std::move(*pool);
    ASSERT_TRUE(runner_->Load(*pool_, 0).ok());
  }

  // One step of a token for each of `sequences`, at `position`.
  void Decode(int sequences, int64_t position) {
    std::vector<Sequence> all;
    BatchBuilder builder;
    for (int i = 0; i < sequences; ++i) {
      all.emplace_back(runner_->kv(), CacheScope{}, PrefixCache::kOff);
      ASSERT_TRUE(ReserveNow(all.back(), position + 1).ok());
      builder.AddToken(builder.AddSequence(all.back().block_table()), 100 + i, position,
                       Logits::kYes);
    }
    Reset();
    ASSERT_TRUE(runner_->Step(builder.batch()).ok());
  }

  ModelSource source_;
  std::unique_ptr<SourceWeights> weights_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ModelRunner> runner_;
};

constexpr int64_t kLayers = 30;
constexpr int64_t kKvHeads = 3;
constexpr int64_t kWidth = 576;
constexpr int64_t kFeedForward = 1536;
constexpr int64_t kVocabulary = 49152;
// Rows of a layer's matrices: Q, K and V (576 + 2 * 192), output, gate and up, down.
constexpr int64_t kLayerRows = 960 + kWidth + 2 * kFeedForward + kWidth;
constexpr int64_t kPanels = (kLayers * kLayerRows + kVocabulary) / kPanelRows;
// Bytes of 32 weights: 20 in Q4_1, 34 in Q8_0, which this file's embedding, also its head, has.
constexpr int64_t kWeightBytes =
    kLayers * ((kLayerRows - kWidth) * kWidth + kWidth * kFeedForward) / 32 * 20 +
    kVocabulary * kWidth / 32 * 34;
// What goes into each of a layer's four products, and into the head, is quantized once.
constexpr int64_t kQuantized = kLayers * (3 * kWidth + kFeedForward) + kWidth;
constexpr int64_t kNorms = 2 * kLayers + 1;

TEST_F(WorkCounterTest, ADecodeStepReadsEveryWeightOnce) {
  Decode(1, 100);
  EXPECT_EQ(work.panels, kPanels);
  EXPECT_EQ(work.weight_bytes, kWeightBytes);
  EXPECT_EQ(work.norms, kNorms);
  EXPECT_EQ(work.quantized_values, kQuantized);
  EXPECT_EQ(work.attentions, kLayers * kKvHeads);
}

TEST_F(WorkCounterTest, ABatchReadsTheSameBytes) {
  constexpr int kSequences = 8;
  Decode(kSequences, 20);
  EXPECT_EQ(work.panels, kPanels);
  EXPECT_EQ(work.weight_bytes, kWeightBytes);
  EXPECT_EQ(work.norms, kSequences * kNorms);
  EXPECT_EQ(work.quantized_values, kSequences * kQuantized);
  EXPECT_EQ(work.attentions, kSequences * kLayers * kKvHeads);
}

TEST_F(WorkCounterTest, PlanHasTenStepsALayerAtMost) {
  EXPECT_LE(static_cast<int64_t>(runner_->plan().steps().size()), 10 * kLayers + 5);
}

}  // namespace
}  // namespace tenon

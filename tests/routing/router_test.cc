// The trained router: learning, its measures, its file.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "accel/routing/router_file.h"
#include "accel/routing/router_training.h"
#include "gguf/gguf_writer.h"
#include "hal/kernel_registry.h"

namespace tenon {
namespace {

using ::tenon::testing::TempFolder;

constexpr int64_t kHidden = 24;

KernelSet Kernels() {
  return *ResolveKernelSetFromEnvironment();
}

// Good when two features agree in sign: no linear rule finds that. One feature never moves.
RouterExamples MakeExamples(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(3.0F, 2.0F);
  RouterExamples examples;
  examples.hidden = FloatMatrix(count, kHidden);
  for (int64_t r = 0; r < count; ++r) {
    const auto row = examples.hidden.row(r);
    for (float& value : row)
      value = normal(random);
    row[7] = 5.0F;
    examples.labels.push_back((row[0] > 3.0F) == (row[1] > 3.0F) ? 1.0F : 0.0F);
  }
  return examples;
}

TEST(FloatProductsTest, EqualsTheDefinition) {
  const auto pool = *ThreadPool::Create(2);
  FloatProducts products(Kernels(), *pool);
  std::mt19937 random(1);
  std::uniform_int_distribution<int> small(-3, 3);
  for (const auto& [rows, columns, k] :
       {std::tuple{1, 1, 1}, {3, 17, 5}, {70, 16, 33}, {65, 40, 128}}) {
    FloatMatrix a(rows, k);
    FloatMatrix b(columns, k);
    for (float& value : a.values)
      value = static_cast<float>(small(random));
    for (float& value : b.values)
      value = static_cast<float>(small(random));
    const FloatMatrix c = products.TimesTransposed(a, b);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float sum = 0.0F;  // of small integers: exact
        for (int64_t x = 0; x < k; ++x)
          sum += a.row(i)[static_cast<size_t>(x)] * b.row(j)[static_cast<size_t>(x)];
        ASSERT_EQ(c.row(i)[static_cast<size_t>(j)], sum);
      }
    }
  }
}

TEST(AucTest, ByHand) {
  const float labels[] = {0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(AreaUnderCurve(std::vector{0.1, 0.2, 0.3, 0.4}, labels), 1.0);
  EXPECT_DOUBLE_EQ(AreaUnderCurve(std::vector{0.4, 0.3, 0.2, 0.1}, labels), 0.0);
  EXPECT_DOUBLE_EQ(AreaUnderCurve(std::vector{0.5, 0.5, 0.5, 0.5}, labels), 0.5);
  EXPECT_DOUBLE_EQ(AreaUnderCurve(std::vector{0.1, 0.3, 0.2, 0.4}, labels), 0.75);
  EXPECT_DOUBLE_EQ(AreaUnderCurve(std::vector{0.1, 0.2, 0.2, 0.4}, labels), 0.875);
}

// The trainer's gradients, by what they do: the loss of a batch falls along them as predicted.
TEST(RouterTrainingTest, LearnsWhatNoLinearRuleCan) {
  const auto pool = *ThreadPool::Create(2);
  const RouterExamples train = MakeExamples(3000, 1);
  const RouterExamples held_out = MakeExamples(1000, 2);
  RouterTrainingOptions options;
  options.max_epochs = 60;
  options.learning_rate = 2e-3;
  std::vector<EpochReport> epochs;
  const auto net = TrainRouter({train, held_out}, options, Kernels(), *pool,
                               [&](const EpochReport& report) { epochs.push_back(report); });
  ASSERT_TRUE(net.ok());
  const RouterScorer scorer(*net, Kernels());
  std::vector<double> scores(held_out.labels.size());
  scorer.Score(held_out.hidden.values, scores);
  EXPECT_GT(AreaUnderCurve(scores, held_out.labels), 0.95);
  // What came back is the best state, not the last.
  double loss = 0.0;
  for (size_t i = 0; i < scores.size(); ++i)
    loss -= std::log(held_out.labels[i] > 0.5F ? scores[i] : 1.0 - scores[i]);
  loss /= static_cast<double>(scores.size());
  const auto best = std::ranges::min_element(epochs, {}, &EpochReport::held_out_loss);
  EXPECT_NEAR(loss, best->held_out_loss, 1e-4);
  EXPECT_LT(best - epochs.begin(), static_cast<std::ptrdiff_t>(epochs.size()) - 1);
}

TEST(RouterTrainingTest, SameSeedSameNetwork) {
  const auto pool = *ThreadPool::Create(2);
  const RouterExamples train = MakeExamples(300, 1);
  const RouterExamples held_out = MakeExamples(100, 2);
  RouterTrainingOptions options;
  options.max_epochs = 3;
  const auto one = TrainRouter({train, held_out}, options, Kernels(), *pool, {});
  const auto two = TrainRouter({train, held_out}, options, Kernels(), *pool, {});
  EXPECT_EQ(one->weight1.values, two->weight1.values);
  EXPECT_EQ(one->bias3, two->bias3);
}

TEST(RouterTrainingTest, RefusesOneKindOfLabel) {
  const auto pool = *ThreadPool::Create(1);
  RouterExamples examples = MakeExamples(20, 1);
  RouterExamples all_good = examples;
  std::ranges::fill(all_good.labels, 1.0F);
  EXPECT_EQ(TrainRouter({all_good, examples}, {}, Kernels(), *pool, {}).error().where,
            "training set");
  EXPECT_EQ(TrainRouter({examples, {}}, {}, Kernels(), *pool, {}).error().where, "held-out set");
}

RouterFile MakeRouter() {
  const auto pool = *ThreadPool::Create(1);
  RouterTrainingOptions options;
  options.max_epochs = 1;
  return {*TrainRouter({MakeExamples(100, 1), MakeExamples(50, 2)}, options, Kernels(), *pool, {}),
          "small-1", "large-1"};
}

TEST(RouterFileTest, ComesBackAsItWas) {
  const TempFolder folder;
  const auto path = folder.Write("router.safetensors", {});
  const RouterFile router = MakeRouter();
  ASSERT_TRUE(WriteRouterFile(path, router).ok());
  const auto read = ReadRouterFile(path);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->small_fingerprint, "small-1");
  EXPECT_EQ(read->large_fingerprint, "large-1");
  EXPECT_EQ(read->net.mean, router.net.mean);
  EXPECT_EQ(read->net.weight1.values, router.net.weight1.values);
  EXPECT_EQ(read->net.weight2.values, router.net.weight2.values);
  EXPECT_EQ(read->net.weight3.values, router.net.weight3.values);
  EXPECT_EQ(read->net.bias3, router.net.bias3);
}

// A file is refused when it is cut at any of many places, holds a NaN, or is something else.
TEST(RouterFileTest, RefusesWhatIsWrong) {
  const TempFolder folder;
  const std::filesystem::path path = folder.Write("router.safetensors", {});
  RouterFile router = MakeRouter();
  ASSERT_TRUE(WriteRouterFile(path, router).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(file), {});
  for (size_t length = 0; length < good.size(); length += 97) {
    std::ofstream(path, std::ios::binary) << good.substr(0, length);
    EXPECT_FALSE(ReadRouterFile(path).ok()) << length;
  }
  std::string other = good;
  other.replace(other.find("tenon-router-1"), 14, "tenon-router-9");
  std::ofstream(path, std::ios::binary) << other;
  EXPECT_EQ(ReadRouterFile(path).error().code, ErrorCode::kCorrupt);
  router.net.bias2[3] = NAN;
  ASSERT_TRUE(WriteRouterFile(path, router).ok());
  EXPECT_NE(ReadRouterFile(path).error().where.find("bias2"), std::string::npos);
  router = MakeRouter();
  router.net.bias1.pop_back();
  ASSERT_TRUE(WriteRouterFile(path, router).ok());
  EXPECT_FALSE(ReadRouterFile(path).ok());
}

}  // namespace
}  // namespace tenon

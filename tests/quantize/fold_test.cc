#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "arch/tiny_run.h"
#include "frontend/quantize/fold_plan.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/session/source_weights.h"
#include "graph/slice.h"
#include "model/arch/architecture.h"
#include "model/gguf/gguf_model.h"
#include "tiny_directory.h"
#include "tiny_file.h"

namespace tenon {
namespace {

using testing::FindTinyCase;
using testing::LoadTiny;
using testing::RunTokens;
using testing::TinyCase;

// Tensors from a file that is never written: the graph's weights are looked up in memory.
class TinyWeights final : public WeightSource {
 public:
  explicit TinyWeights(const TinyCase& tiny) : tensors_(testing::TinyTensors(tiny)) {}

  Result<WeightView> Find(std::string_view name) const override {
    for (const testing::TinyTensor& tensor : tensors_) {
      if (tensor.name != name)
        continue;
      const int64_t columns = tensor.shape.back();
      return WeightView{DType::kF32, static_cast<int64_t>(tensor.values.size()) / columns, columns,
                        std::as_bytes(std::span(tensor.values))};
    }
    return NotFound("no such tensor", std::string(name));
  }
  Status ReadAt(std::string_view name, uint64_t offset, std::span<std::byte> out) const override {
    TENON_ASSIGN_OR_RETURN(const WeightView view, Find(name));
    std::copy_n(view.bytes.begin() + static_cast<int64_t>(offset), out.size(), out.begin());
    return {};
  }
  void Release(std::string_view, uint64_t, uint64_t) const override {}
  void ReleaseAll() const override {}

 private:
  std::vector<testing::TinyTensor> tensors_;
};

ModelSource SourceOf(const testing::Bytes& bytes) {
  std::vector<GgufFile> files;
  auto parsed = ParseGguf(bytes, "tiny");
  EXPECT_TRUE(parsed.ok());
  files.push_back(*std::move(parsed));
  auto source = ModelFromGguf(files);
  EXPECT_TRUE(source.ok());
  return *std::move(source);
}

// Random factors for every input that can be smoothed, folded as a quantizer folds them.
int FoldEverything(const Graph& graph, LayeredWeights& weights) {
  std::mt19937 random(31);
  std::uniform_real_distribution<float> factor(0.25F, 4.0F);
  int folds = 0;
  for (const GraphRange& range : NarrowRanges(graph)) {
    for (const InputGroup& group : PlanFolds(graph, range)) {
      if (!group.fold)
        continue;
      ++folds;
      std::vector<float> scales(static_cast<size_t>(group.columns));
      for (float& scale : scales)
        scale = factor(random);
      TieMagnitudes(*group.fold, scales);
      for (const std::string& name : group.fold->vectors) {
        Matrix vector = *LoadMatrix(weights, name);
        DivideVector(*group.fold, scales, vector);
        weights.Replace(name, std::move(vector));
      }
      if (!group.fold->matrix.empty()) {
        Matrix matrix = *LoadMatrix(weights, group.fold->matrix);
        DivideRows(*group.fold, scales, matrix);
        weights.Replace(group.fold->matrix, std::move(matrix));
      }
      std::vector<std::string> readers = group.weights;
      if (group.experts) {
        readers.push_back(group.experts->gate);
        readers.push_back(group.experts->up);
      }
      for (const std::string& name : readers) {
        Matrix matrix = *LoadMatrix(weights, name);
        for (int64_t i = 0; i < matrix.rows(); ++i) {
          for (int64_t j = 0; j < matrix.columns(); ++j)
            matrix.At(i, j) *= scales[static_cast<size_t>(j)];
        }
        weights.Replace(name, std::move(matrix));
      }
    }
  }
  return folds;
}

class EveryFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryFamily, FoldedFactorsLeaveTheLogitsAlone) {
  const TinyCase tiny = FindTinyCase(GetParam());
  const testing::Bytes bytes = TinyGguf(tiny, testing::TinyTensors(tiny));
  const ModelSource source = SourceOf(bytes);
  const TinyWeights original(tiny);
  auto plain = LoadTiny(source, original, OptimizeLevel::kO0);
  ASSERT_TRUE(plain.ok()) << plain.error().ToString();
  const std::vector<float> expected = RunTokens(*plain->runner, tiny.tokens, tiny.tokens.size());
  LayeredWeights folded(original);
  const int folds = FoldEverything(*BuildGraph(source), folded);
  // q k v, output, gate and up, down; experts fold their down projections by themselves.
  EXPECT_EQ(folds, (tiny.Has("experts") ? 3 : 4) * tiny.Int("layers"));
  auto smoothed = LoadTiny(source, folded, OptimizeLevel::kO0);
  ASSERT_TRUE(smoothed.ok());
  const std::vector<float> found = RunTokens(*smoothed->runner, tiny.tokens, tiny.tokens.size());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 2e-4F) << i;
}

// Layer norms with biases, and a ReLU between the matrices of the feed-forward network.
TEST(FoldPlan, FoldsThroughLayerNormsAndRelu) {
  const TinyCase tiny = FindTinyCase("opt");
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "opt");
  testing::WriteTinyDirectory(tiny, {}, folder / "opt");
  const auto source = OpenModel(folder / "opt");
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  const SourceWeights original(*source);
  auto plain = LoadTiny(*source, original, OptimizeLevel::kO0);
  ASSERT_TRUE(plain.ok()) << plain.error().ToString();
  const std::vector<float> expected = RunTokens(*plain->runner, tiny.tokens, tiny.tokens.size());
  LayeredWeights folded(original);
  EXPECT_EQ(FoldEverything(*BuildGraph(*source), folded), 4 * tiny.Int("layers"));
  auto smoothed = LoadTiny(*source, folded, OptimizeLevel::kO0);
  ASSERT_TRUE(smoothed.ok());
  const std::vector<float> found = RunTokens(*smoothed->runner, tiny.tokens, tiny.tokens.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 2e-4F) << i;
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         ::testing::Values("llama", "llama_bias_tied", "mistral_window", "mixtral"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tenon

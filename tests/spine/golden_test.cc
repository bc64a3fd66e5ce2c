// Logits in reference mode against transformers in fp32 on the same weights (scripts/
// make_logit_golden.py). Both compute in float but sum in other orders: the tolerance is what
// rounding of 2^-24 gives over some thousands of additions in each of up to 30 layers, on logits
// near 30.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "test_model.h"

namespace tenon {
namespace {

// Mean and largest absolute difference of a logit.
constexpr double kMeanTolerance = 5e-5;
constexpr double kMaxTolerance = 5e-4;

struct GoldenPosition {
  int64_t position = 0;
  double log_sum_exp = 0.0;
  std::vector<std::pair<int32_t, double>> top;  // best first
};

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<GoldenPosition> positions;
};

Golden ReadGolden(const std::string& name) {
  Golden golden;
  std::ifstream file("tests/data/" + name);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "tokens") {
      for (int32_t id = 0; words >> id;)
        golden.tokens.push_back(id);
      continue;
    }
    GoldenPosition position;
    words >> position.position >> position.log_sum_exp;
    char colon = 0;
    for (std::pair<int32_t, double> entry; words >> entry.first >> colon >> entry.second;)
      position.top.push_back(entry);
    golden.positions.push_back(std::move(position));
  }
  return golden;
}

double LogSumExpOf(std::span<const float> logits) {
  double sum = 0.0;
  for (float logit : logits)
    sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

struct GoldenCase {
  const char* model;
  const char* file;
};

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, ReferenceLogits) {
  const Golden golden = ReadGolden(GetParam().file);
  ASSERT_FALSE(golden.positions.empty());
  LoadOptions options;
  options.precision = Precision::kReference;
  options.context_tokens = 1024;
  options.batch_tokens = 1024;
  TENON_LOAD_OR_SKIP(model, GetParam().model, options);
  Sequence sequence(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
  ASSERT_TRUE(ReserveNow(sequence, static_cast<int64_t>(golden.tokens.size())).ok());
  BatchBuilder builder;
  const int32_t index = builder.AddSequence(sequence.block_table());
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    const bool wanted = std::ranges::count(golden.positions, static_cast<int64_t>(i),
                                           &GoldenPosition::position) > 0;
    builder.AddToken(index, golden.tokens[i], static_cast<int64_t>(i),
                     wanted ? Logits::kYes : Logits::kNo);
  }
  const std::vector<float> logits = RunStep(*model, builder);
  const auto vocabulary = static_cast<size_t>(model->runner().vocab_size());
  ASSERT_EQ(logits.size(), vocabulary * golden.positions.size());
  double sum = 0.0;
  double worst = 0.0;
  double count = 0.0;
  for (size_t row = 0; row < golden.positions.size(); ++row) {
    const auto row_logits = std::span(logits).subspan(row * vocabulary, vocabulary);
    const GoldenPosition& expected = golden.positions[row];
    EXPECT_EQ(std::ranges::max_element(row_logits) - row_logits.begin(),
              expected.top.front().first);
    EXPECT_NEAR(LogSumExpOf(row_logits), expected.log_sum_exp, kMaxTolerance);
    for (const auto& [id, logit] : expected.top) {
      const double error =
          std::abs(static_cast<double>(row_logits[static_cast<size_t>(id)]) - logit);
      worst = std::max(worst, error);
      sum += error;
      count += 1.0;
    }
  }
  RecordProperty("mean_error", std::to_string(sum / count));
  RecordProperty("max_error", std::to_string(worst));
  EXPECT_LE(sum / count, kMeanTolerance);
  EXPECT_LE(worst, kMaxTolerance);
}

std::string CaseName(const testing::TestParamInfo<GoldenCase>& parameter) {
  return std::string_view(parameter.param.model) == kGemma ? "Gemma3" : "SmolLM2";
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Values(GoldenCase{kSmolLm, "golden_smollm2.txt"},
                                         GoldenCase{kGemma, "golden_gemma3.txt"}),
                         CaseName);

}  // namespace
}  // namespace tenon

// All positions of the reference logits (transformers, fp32) where the evaluation data is present:
// best tokens and divergence, in reference mode and in the fast one.
#include <algorithm>
#include <cmath>

#include "npz_reader.h"
#include "test_model.h"

namespace tenon {
namespace {

struct Agreement {
  double top1 = 0.0;       // share of positions with the reference's best token
  double kl = 0.0;         // mean, over the reference's 64 best tokens and the rest as one
  double max_error = 0.0;  // of the reference's best 64 logits
};

struct GoldenFile {
  std::vector<int32_t> tokens;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logits;
  std::vector<float> log_sum_exp;
  size_t sequences = 0;
  size_t length = 0;
  size_t top = 0;
};

GoldenFile ReadGoldenFile(NpzReader& npz) {
  GoldenFile file;
  std::vector<size_t> shape;
  file.tokens = npz.Read<int32_t>("tokens", shape);
  file.sequences = shape[0];
  file.length = shape[1];
  file.top_ids = npz.Read<int32_t>("top_ids", shape);
  file.top = shape[2];
  file.top_logits = npz.Read<float>("top_logits", shape);
  file.log_sum_exp = npz.Read<float>("logsumexp", shape);
  return file;
}

// KL of the reference's distribution from the model's, both cut to the named tokens and one rest.
double Divergence(std::span<const float> logits, const GoldenFile& file, size_t position) {
  double sum = 0.0;
  for (float logit : logits)
    sum += std::exp(static_cast<double>(logit));
  const double model_normalizer = std::log(sum);
  double kl = 0.0;
  double reference_rest = 1.0;
  double model_rest = 1.0;
  for (size_t i = 0; i < file.top; ++i) {
    const size_t at = position * file.top + i;
    const double p = std::exp(static_cast<double>(file.top_logits[at]) -
                              static_cast<double>(file.log_sum_exp[position]));
    const double q = std::exp(static_cast<double>(logits[static_cast<size_t>(file.top_ids[at])]) -
                              model_normalizer);
    kl += p * std::log(p / q);
    reference_rest -= p;
    model_rest -= q;
  }
  if (reference_rest > 1e-9 && model_rest > 1e-9)
    kl += reference_rest * std::log(reference_rest / model_rest);
  return kl;
}

void Compare(std::span<const float> logits, const GoldenFile& file, size_t position,
             Agreement& agreement) {
  const int64_t best = std::ranges::max_element(logits) - logits.begin();
  agreement.top1 += best == file.top_ids[position * file.top] ? 1.0 : 0.0;
  agreement.kl += Divergence(logits, file, position);
  for (size_t i = 0; i < file.top; ++i) {
    const size_t at = position * file.top + i;
    const double error = static_cast<double>(logits[static_cast<size_t>(file.top_ids[at])]) -
                         static_cast<double>(file.top_logits[at]);
    agreement.max_error = std::max(agreement.max_error, std::abs(error));
  }
}

// Every position's logits, in steps of as many rows as the plan gives.
Agreement Measure(Model& model, const GoldenFile& file) {
  Agreement agreement;
  const auto rows = static_cast<size_t>(model.runner().options().plan.max_outputs);
  const auto vocabulary = static_cast<size_t>(model.runner().vocab_size());
  BatchBuilder builder;
  for (size_t s = 0; s < file.sequences; ++s) {
    Sequence sequence(model.runner().kv(), CacheScope{}, PrefixCache::kOff);
    EXPECT_TRUE(ReserveNow(sequence, static_cast<int64_t>(file.length)).ok());
    const auto tokens = std::span(file.tokens).subspan(s * file.length, file.length);
    for (size_t begin = 0; begin < file.length; begin += rows) {
      const auto piece = tokens.subspan(begin, std::min(rows, file.length - begin));
      builder.Clear();
      builder.AddTokens(builder.AddSequence(sequence.block_table()), piece,
                        static_cast<int64_t>(begin), BatchBuilder::Outputs::kAll);
      const std::vector<float> logits = RunStep(model, builder);
      for (size_t i = 0; i < piece.size(); ++i) {
        Compare(std::span(logits).subspan(i * vocabulary, vocabulary), file,
                s * file.length + begin + i, agreement);
      }
    }
  }
  const auto positions = static_cast<double>(file.sequences * file.length);
  agreement.top1 /= positions;
  agreement.kl /= positions;
  return agreement;
}

struct FullGoldenCase {
  const char* model;
  const char* file;
  Precision precision;
  double least_top1;
  double most_kl;
};

class FullGoldenTest : public testing::TestWithParam<FullGoldenCase> {};

TEST_P(FullGoldenTest, AgreesWithTransformers) {
  auto npz = NpzReader::Open(TestDataFile(GetParam().file));
  if (npz == nullptr)
    GTEST_SKIP() << TestDataFile(GetParam().file) << " is missing (TENON_TEST_DATA)";
  LoadOptions options;
  options.precision = GetParam().precision;
  options.context_tokens = 2048;
  options.batch_outputs = 128;
  TENON_LOAD_OR_SKIP(model, GetParam().model, options);
  const GoldenFile file = ReadGoldenFile(*npz);
  const Agreement agreement = Measure(*model, file);
  std::printf("%s: top-1 %.4f, KL %.3g, largest error %.3g\n", GetParam().file, agreement.top1,
              agreement.kl, agreement.max_error);
  EXPECT_GE(agreement.top1, GetParam().least_top1);
  EXPECT_LE(agreement.kl, GetParam().most_kl);
}

std::string CaseName(const testing::TestParamInfo<FullGoldenCase>& parameter) {
  const FullGoldenCase& entry = parameter.param;
  if (std::string_view(entry.model) == kSmolLmDirectory)
    return "SmolLM2Directory";
  const std::string_view name = entry.model;
  return std::string(name == kGemma     ? "Gemma3"
                     : name == kSmolMoe ? "SmolMoE"
                                        : "SmolLM2") +
         (entry.precision == Precision::kReference ? "Reference" : "Fast");
}

// Reference: the order of sums alone differs. Fast: bounds for SmolLM2 are those the project set
// itself on WikiText; Gemma's weights are of five formats down to 4 bits.
INSTANTIATE_TEST_SUITE_P(
    Models, FullGoldenTest,
    testing::Values(
        FullGoldenCase{kSmolLm, "golden-smollm2-135m-instruct.npz", Precision::kReference, 0.999,
                       1e-6},
        FullGoldenCase{kGemma, "golden-gemma-3-270m.npz", Precision::kReference, 0.999, 1e-6},
        FullGoldenCase{kSmolLmDirectory, "golden-smollm2-135m-instruct.npz", Precision::kReference,
                       0.999, 1e-6},
        FullGoldenCase{kSmolMoe, "golden-smolmoe-8x135m.npz", Precision::kReference, 0.999, 1e-6},
        FullGoldenCase{kSmolMoe, "golden-smolmoe-8x135m.npz", Precision::kFast, 0.99, 1e-4},
        FullGoldenCase{kSmolLm, "golden-smollm2-135m-instruct.npz", Precision::kFast, 0.97, 2e-3},
        FullGoldenCase{kGemma, "golden-gemma-3-270m.npz", Precision::kFast, 0.95, 1e-2}),
    CaseName);

}  // namespace
}  // namespace tenon

// Speculation on a real model: whatever guesses, the answer is token for token that of plain
// decoding, greedy or with a seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontend/session/generation.h"
#include "frontend/session/module_set.h"
#include "spine/test_model.h"

namespace tenon {
namespace {

LoadOptions Options(std::optional<KvType> kv_type = std::nullopt) {
  LoadOptions options;
  options.context_tokens = 2048;
  options.batch_tokens = 128;
  options.batch_outputs = 48;
  options.kv_type = kv_type;
  return options;
}

// Prompts by number, 4 in the quick run, 200 with TENON_FULL_TESTS=1.
size_t PromptCount() {
  const char* full = std::getenv("TENON_FULL_TESTS");
  return full != nullptr && *full == '1' ? 200 : 4;
}

// Questions of GSM8K where the data is there; else made-up tokens.
std::vector<std::vector<int32_t>> Prompts(const Model& model, size_t count) {
  std::vector<std::vector<int32_t>> prompts;
  std::ifstream file(TestDataFile("gsm8k-test.jsonl"));
  for (std::string line; prompts.size() < count && std::getline(file, line);) {
    const std::string text = nlohmann::json::parse(line).at("question").get<std::string>();
    prompts.push_back(
        model.tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault));
  }
  while (prompts.size() < count)
    prompts.push_back(MadeUpTokens(24, static_cast<uint32_t>(prompts.size())));
  return prompts;
}

ModuleConfig ConfigOf(const std::string& flag) {
  ModuleConfig config;
  auto entry = ParseModuleFlag(flag);
  EXPECT_TRUE(entry.ok());
  config.modules.push_back(*entry);
  return config;
}

struct SpeculationCase {
  const char* name;
  std::string module;
  float temperature;
  std::optional<KvType> kv_type;
  double min_acceptance;
};

class SpeculationModelTest : public ::testing::TestWithParam<SpeculationCase> {};

TEST_P(SpeculationModelTest, SaysWhatPlainDecodingSays) {
  const SpeculationCase& test = GetParam();
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(test.kv_type));
  auto set = ModuleSet::Create(*model, ConfigOf(test.module));
  ASSERT_TRUE(set.ok()) << set.error().ToString();
  uint32_t number = 0;
  for (auto& prompt : Prompts(*model, PromptCount())) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = 40;
    request.end_tokens = EndTokens::kIgnore;
    request.sampling.temperature = test.temperature;
    request.sampling.seed = ++number;
    request.sampling.repetition_penalty = number % 3 == 0 ? 1.1F : 1.0F;
    const auto plain = Generate(*model, request, nullptr);
    ASSERT_TRUE(plain.ok()) << plain.error().ToString();
    model->runner().kv().DropCached();
    request.steps = &(*set)->steps();
    const auto guessed = Generate(*model, request, nullptr);
    ASSERT_TRUE(guessed.ok()) << guessed.error().ToString();
    model->runner().kv().DropCached();
    ASSERT_EQ(guessed->token_ids, plain->token_ids) << "prompt " << number;
  }
  const ModuleReport report = (*set)->chain().Report().front();
  EXPECT_EQ(report.stats.integrity_failures, 0U);
  EXPECT_GT(report.stats.proposed, 0U);
  const double acceptance = static_cast<double>(report.stats.accepted) /
                            static_cast<double>(std::max<uint64_t>(report.stats.proposed, 1));
  RecordProperty("acceptance", std::to_string(acceptance));
  EXPECT_GE(acceptance, test.min_acceptance);
}

// length=fixed: the quick run must guess, whatever this machine's costs are.
INSTANTIATE_TEST_SUITE_P(
    Modules, SpeculationModelTest,
    ::testing::Values(
        SpeculationCase{"ngram", "ngram:length=fixed,shortest=1", 0.0F, {}, 0.05},
        SpeculationCase{"ngram_adaptive", "ngram", 0.0F, {}, 0.0},
        SpeculationCase{"ngram_sampled", "ngram:length=fixed,shortest=1", 0.8F, {}, 0.02},
        SpeculationCase{
            "own_draft", "draft_model:model=smollm2-135m-instruct,length=fixed", 0.0F, {}, 1.0},
        SpeculationCase{"own_draft_sampled",
                        "draft_model:model=smollm2-135m-instruct,length=fixed",
                        0.8F,
                        {},
                        1.0},
        SpeculationCase{"int4_draft",
                        "draft_model:model=smollm2-135m-instruct,weights=int4,length=fixed",
                        0.0F,
                        {},
                        0.5},
        SpeculationCase{"self_spec", "self_spec:length=fixed", 0.0F, {}, 0.5},
        SpeculationCase{"self_spec_halves", "self_spec:length=fixed,weights=as_stored", 0.0F,
                        KvType::kHier, 0.8},
        SpeculationCase{"self_spec_both", "self_spec:length=fixed", 0.0F, KvType::kHier, 0.5},
        SpeculationCase{"self_spec_sampled", "self_spec:length=fixed", 0.8F, KvType::kHier, 0.3}),
    [](const auto& suite) { return std::string(suite.param.name); });

// The target as its own draft: every guess is right, so the steps can be counted.
TEST(SpeculationStepsTest, ADraftThatIsAlwaysRightSavesSteps) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  auto set = ModuleSet::Create(
      *model, ConfigOf("draft_model:model=smollm2-135m-instruct,length=fixed,max_guesses=4"));
  ASSERT_TRUE(set.ok()) << set.error().ToString();
  GenerationRequest request;
  request.prompt = MadeUpTokens(20, 3);
  request.max_tokens = 26;
  request.end_tokens = EndTokens::kIgnore;
  request.sampling.temperature = 0.0F;
  request.steps = &(*set)->steps();
  const auto result = Generate(*model, request, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->token_ids.size(), 26U);
  const ModuleReport report = (*set)->chain().Report().front();
  // 5 tokens a step, the prompt's among them: 25 and then the last one.
  EXPECT_EQ(report.stats.steps, 6U);
  EXPECT_EQ(report.stats.accepted, report.stats.proposed);
  EXPECT_EQ(report.stats.proposed, 20U);
}

TEST(SpeculationStepsTest, RejectionKeepsTheLimits) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  auto set = ModuleSet::Create(*model, ConfigOf("self_spec:length=fixed,acceptance=rejection"));
  ASSERT_TRUE(set.ok()) << set.error().ToString();
  GenerationRequest request;
  request.prompt = MadeUpTokens(20, 4);
  request.end_tokens = EndTokens::kIgnore;
  request.sampling.temperature = 1.0F;
  request.sampling.logprobs = 2;
  request.steps = &(*set)->steps();
  for (int64_t tokens : {1, 2, 3, 7, 31}) {
    request.max_tokens = tokens;
    const auto result = Generate(*model, request, nullptr);
    ASSERT_TRUE(result.ok()) << result.error().ToString();
    EXPECT_EQ(static_cast<int64_t>(result->token_ids.size()), tokens);
    ASSERT_EQ(result->sampled.size(), result->token_ids.size());
    for (size_t i = 0; i < result->sampled.size(); ++i) {
      EXPECT_EQ(result->sampled[i].token, result->token_ids[i]);
      EXPECT_EQ(result->sampled[i].top.size(), 2U);
      EXPECT_LE(result->sampled[i].logprob, 0.0F);
    }
  }
  EXPECT_EQ((*set)->chain().Report().front().stats.integrity_failures, 0U);
}

TEST(ModuleSetTest, RefusesWhatItCannotDo) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  const auto error = [&](const std::string& flag) {
    const auto set = ModuleSet::Create(*model, ConfigOf(flag));
    return set.ok() ? std::string() : set.error().ToString();
  };
  EXPECT_THAT(error("nothing"), ::testing::HasSubstr("ngram"));
  EXPECT_THAT(error("ngram:max_guess=3"), ::testing::HasSubstr("modules.ngram.max_guess"));
  EXPECT_THAT(error("ngram:max_guesses=0"), ::testing::HasSubstr("expected 1 to 32"));
  EXPECT_THAT(error("ngram:max_guesses=many"), ::testing::HasSubstr("expected a whole number"));
  EXPECT_THAT(error("ngram:longest=2,shortest=3"), ::testing::HasSubstr("longer than"));
  EXPECT_THAT(error("draft_model"), ::testing::HasSubstr("draft_model.model"));
  EXPECT_THAT(error("draft_model:model=no-such-model"),
              ::testing::StartsWith("modules.draft_model.model: no-such-model: "));
  EXPECT_THAT(error("routing:small=no-such-model"),
              ::testing::StartsWith("modules.routing.small: no-such-model: "));
  EXPECT_THAT(error("self_spec:max_acceptance_rate=10%,min_acceptance_rate=90%"),
              ::testing::HasSubstr("modules.self_spec.min_acceptance_rate"));
  EXPECT_THAT(error("self_spec:acceptance=maybe"), ::testing::HasSubstr("same_draw, rejection"));
  if (ResolveModel(kGemma).ok()) {
    EXPECT_THAT(error(std::string("draft_model:model=") + kGemma),
                ::testing::HasSubstr("different tokenizers"));
  }
}

}  // namespace
}  // namespace tenon

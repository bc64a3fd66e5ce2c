// Precision by request: short prompts on the 4-bit copy, long ones on the model as it is.
#include <gtest/gtest.h>

#include "frontend/session/generation.h"
#include "frontend/session/module_set.h"
#include "spine/test_model.h"

namespace tenon {
namespace {

constexpr int64_t kThreshold = 40;

LoadOptions Options(WeightRounding rounding) {
  LoadOptions options;
  options.context_tokens = 1024;
  options.batch_tokens = 128;
  options.weight_rounding = rounding;
  return options;
}

GenerationRequest RequestOf(int64_t prompt_tokens) {
  GenerationRequest request;
  request.prompt = MadeUpTokens(prompt_tokens, 7);
  request.max_tokens = 24;
  request.end_tokens = EndTokens::kIgnore;
  request.sampling.temperature = 0.0F;
  return request;
}

std::vector<int32_t> IdsOf(Model& model, GenerationRequest request, StepEngine* steps) {
  request.steps = steps;
  const auto result = Generate(model, request, nullptr);
  EXPECT_TRUE(result.ok()) << result.error().ToString();
  return result.ok() ? result->token_ids : std::vector<int32_t>();
}

ModuleConfig ConfigOf(const std::string& flag) {
  ModuleConfig config;
  config.modules.push_back(*ParseModuleFlag(flag));
  return config;
}

TEST(AdaptiveModule, TheLengthOfThePromptChoosesTheWeights) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(WeightRounding::kNone));
  TENON_LOAD_OR_SKIP(copy, kSmolLm, Options(WeightRounding::kInt4));
  auto set = ModuleSet::Create(*model, ConfigOf("adaptive:short_prompt=40"));
  ASSERT_TRUE(set.ok()) << set.error().ToString();
  StepEngine* steps = &(*set)->steps();
  const auto decided = [&] { return (*set)->chain().Report().front().stats.accepted; };
  const GenerationRequest brief = RequestOf(kThreshold - 1);
  const GenerationRequest lengthy = RequestOf(kThreshold);

  EXPECT_EQ(IdsOf(*model, brief, steps), IdsOf(*copy, brief, nullptr));
  EXPECT_EQ(decided(), 24U);
  EXPECT_EQ(IdsOf(*model, lengthy, steps), IdsOf(*model, lengthy, nullptr));
  EXPECT_EQ(decided(), 24U);
  // What the copy computed is not found by a request that runs on the model.
  IdsOf(*model, brief, steps);
  const std::vector<int32_t> after = IdsOf(*model, brief, nullptr);
  model->runner().kv().DropCached();
  EXPECT_EQ(after, IdsOf(*model, brief, nullptr));
}

TEST(AdaptiveModule, RefusesWhatItDoesNotKnow) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(WeightRounding::kNone));
  EXPECT_FALSE(ModuleSet::Create(*model, ConfigOf("adaptive:short_prompt=-1")).ok());
  EXPECT_FALSE(ModuleSet::Create(*model, ConfigOf("adaptive:long_prompt=1")).ok());
}

}  // namespace
}  // namespace tenon

// The example of docs/add-module.md does what the page says.
#include <gtest/gtest.h>

#include "frontend/session/generation.h"
#include "frontend/session/module_set.h"
#include "modules/repeat_module.h"
#include "spine/test_model.h"

namespace tenon {
namespace {

TEST(ExampleModuleTest, GuessesAndChangesNothing) {
  LoadOptions options;
  options.context_tokens = 512;
  TENON_LOAD_OR_SKIP(model, kSmolLm, options);
  auto set = ModuleSet::Create(*model, ModuleConfig());
  ASSERT_TRUE(set.ok());
  ModuleContext context;
  context.name = "repeat";
  context.options = {{"guesses", 3}};
  auto module = CreateRepeatModule(context);
  ASSERT_TRUE(module.ok()) << module.error().ToString();
  ASSERT_TRUE((*set)->chain().Add(std::move(*module)).ok());
  GenerationRequest request;
  request.prompt = MadeUpTokens(12, 2);
  request.max_tokens = 24;
  request.end_tokens = EndTokens::kIgnore;
  request.sampling.temperature = 0.0F;
  const auto plain = Generate(*model, request, nullptr);
  request.steps = &(*set)->steps();
  const auto guessed = Generate(*model, request, nullptr);
  ASSERT_TRUE(plain.ok() && guessed.ok());
  EXPECT_EQ(guessed->token_ids, plain->token_ids);
  const ModuleReport report = (*set)->chain().Report().front();
  EXPECT_GT(report.stats.proposed, 0U);
  EXPECT_LE(report.stats.accepted, report.stats.proposed);
  EXPECT_EQ(report.stats.decided, 24U);
}

TEST(ExampleModuleTest, RefusesOptionsThatItHasNot) {
  ModuleContext context;
  context.name = "repeat";
  context.options = {{"guess", 3}};
  const auto module = CreateRepeatModule(context);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().where, "modules.repeat.guess");
}

}  // namespace
}  // namespace tenon

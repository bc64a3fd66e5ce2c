// The benchmark of modules: settings are what their names say, and the judge is right where the
// answer is known. Rates are not tested.
#include "frontend/session/answer_bench.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "frontend/session/module_set.h"
#include "spine/test_model.h"

namespace tenon {
namespace {

std::filesystem::path WriteTemporary(const std::string& text) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "answer_bench.jsonl";
  std::ofstream(path) << text;
  return path;
}

TEST(AnswerBenchTest, MeasuresEachSettingAndJudgesIt) {
  LoadOptions options;
  options.context_tokens = 256;
  TENON_LOAD_OR_SKIP(model, kSmolLm, options);
  ModuleConfig config;
  config.modules.push_back(*ParseModuleFlag("ngram"));
  auto modules = ModuleSet::Create(*model, config);
  ASSERT_TRUE(modules.ok()) << modules.error().ToString();

  const auto settings = AloneAndStacked(*model, (*modules)->chain(), "");
  ASSERT_EQ(settings.size(), 2U);
  EXPECT_EQ(settings[0].name, "plain");
  EXPECT_EQ(settings[1].modules, std::vector<std::string>{"ngram"});

  const auto file = WriteTemporary(
      "{\"prompt\": \"one two three one two three one two\"}\n{\"prompt\": \"The sea is\"}\n");
  const auto workload = ReadWorkload(*model, "short=" + file.string(), 5);
  ASSERT_TRUE(workload.ok()) << workload.error().ToString();
  EXPECT_EQ(workload->prompts.size(), 2U);

  const auto rates = RunAnswerBench(settings, *workload, *model, {12, 2});
  ASSERT_TRUE(rates.ok()) << rates.error().ToString();
  ASSERT_EQ(rates->size(), 2U);
  for (const AnswerRates& r : *rates) {
    EXPECT_EQ(r.tokens, 2 * 2 * 12) << r.setting;
    // Greedy answers, judged by the model that gave them; guesses change nothing.
    EXPECT_DOUBLE_EQ(r.agreement, 1.0) << r.setting;
    EXPECT_LE(r.tok_s_min, r.tok_s);
    EXPECT_GE(r.tok_s_max, r.tok_s);
  }
  EXPECT_DOUBLE_EQ((*rates)[0].nll, (*rates)[1].nll);
  EXPECT_GT((*rates)[0].nll, 0.0);
  EXPECT_TRUE((*rates)[0].modules.empty());
  EXPECT_GT((*rates)[1].modules["ngram"]["proposed"], 0);
}

TEST(AnswerBenchTest, RefusesWhatIsNoWorkload) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, LoadOptions());
  const auto empty = WriteTemporary("");
  for (const std::string& argument :
       {std::string("short"), std::string("=x"), std::string("short="),
        std::string("short=/no/such/file"), "short=" + empty.string()})
    EXPECT_FALSE(ReadWorkload(*model, argument, 4).ok()) << argument;
}

}  // namespace
}  // namespace tenon

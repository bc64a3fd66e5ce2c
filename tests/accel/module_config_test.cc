// tenon.yaml and --module flags.
#include "frontend/session/module_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accel/module_options.h"

namespace tenon {
namespace {

TEST(ModuleConfigTest, ReadsModulesInTheirOrder) {
  const auto config = ParseModuleConfig(R"(
modules:
  self_spec: { max_guesses: 4, max_acceptance_rate: 95% }
  ngram:
  routing: false
  draft_model: { model: "123", context: 2048 }
module_memory_quota: { routing: 15%, quantization: 60% }
monitoring: { min_latency_saving: 15%, p99_rollback: 0.4 }
)",
                                        "tenon.yaml");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  ASSERT_EQ(config->modules.size(), 3U);
  EXPECT_EQ(config->modules[0].name, "self_spec");
  EXPECT_EQ(config->modules[0].options["max_guesses"], 4);
  EXPECT_EQ(config->modules[0].options["max_acceptance_rate"], "95%");
  EXPECT_EQ(config->modules[1].name, "ngram");
  EXPECT_TRUE(config->modules[1].options.empty());
  EXPECT_EQ(config->modules[2].options["model"], "123");  // quoted: text
  EXPECT_EQ(config->memory_quota["routing"], "15%");
  EXPECT_EQ(config->monitoring["p99_rollback"], 0.4);
}

TEST(ModuleConfigTest, TheAcceptanceRuleIsAnOptionOfTheModuleThatDrafts) {
  const auto option = [](const std::string& module) {
    const auto config = ParseModuleConfig(
        "monitoring: { max_acceptance_rate: 0.9 }\nmodules: { " + module + " }", "t.yaml");
    EXPECT_TRUE(config.ok()) << config.error().ToString();
    EXPECT_TRUE(config->monitoring.empty());
    return config->modules.at(0).options.value("max_acceptance_rate", -1.0);
  };
  EXPECT_EQ(option("self_spec"), 0.9);
  EXPECT_EQ(option("self_spec: { max_acceptance_rate: 0.8 }"), 0.8);
  EXPECT_EQ(option("ngram"), -1.0);
  const auto wrong = ParseModuleConfig("\nmonitoring: { max_acceptance_rate: 2 }", "t.yaml");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where, "t.yaml:2: monitoring.max_acceptance_rate");
}

TEST(ModuleConfigTest, ReadsQuantizationAndScheduling) {
  for (const char* text :
       {"kv_cache: 4bit_nf4\nquantization: { recomputation: true }",
        "modules:\n  quantization: { kv_cache: \"4bit_nf4\", recomputation: true }",
        "kv_cache: 4bit_nf4\nquantization:\n  kv_cache: 4bit_nf4\n"
        "  recomputation: true"}) {
    const auto config = ParseModuleConfig(text, "t.yaml");
    ASSERT_TRUE(config.ok()) << config.error().ToString();
    EXPECT_EQ(config->kv_cache, "4bit_nf4") << text;
    EXPECT_EQ(config->recomputation, true) << text;
    EXPECT_TRUE(config->modules.empty()) << text;
  }
  const auto config =
      ParseModuleConfig("scheduling: { batch_window_ms: 20, max_batch: 8 }", "t.yaml");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->scheduling["max_batch"], 8);
  EXPECT_EQ(config->kv_cache, "");
  EXPECT_FALSE(config->recomputation.has_value());
}

TEST(ModuleConfigTest, NamesThePlaceOfWhatIsWrong) {
  const auto error = [](std::string_view text) {
    const auto config = ParseModuleConfig(text, "t.yaml");
    return config.ok() ? std::string() : config.error().ToString();
  };
  EXPECT_EQ(error(""), "");
  EXPECT_THAT(error("module: {}"), ::testing::HasSubstr("t.yaml:1: unknown field 'module'"));
  EXPECT_THAT(error("modules:\n  ngram: {}\n  ngram: {}"), ::testing::HasSubstr("t.yaml:3"));
  EXPECT_THAT(error("modules: [ngram]"), ::testing::HasSubstr("must be a map"));
  EXPECT_THAT(error("modules: { ngram: 5 }"), ::testing::HasSubstr("options by name"));
  EXPECT_THAT(error("modules: { ngram: { a: 1, a: 2 } }"), ::testing::HasSubstr("twice"));
  EXPECT_THAT(error("modules: {"), ::testing::HasSubstr("t.yaml"));
  EXPECT_THAT(error("[[["), ::testing::HasSubstr("t.yaml"));
  EXPECT_THAT(error("kv_cache: q8\nquantization:\n  kv_cache: q4"),
              ::testing::HasSubstr("t.yaml:3: the KV cache is q4 here and q8 at t.yaml:1"));
  EXPECT_THAT(error("kv_cache: [q8]"), ::testing::HasSubstr("expected the type"));
  EXPECT_THAT(error("quantization: 4bit"), ::testing::HasSubstr("values by name"));
  EXPECT_THAT(error("quantization: { recomputation: 3 }"), ::testing::HasSubstr("true or false"));
  EXPECT_THAT(error("quantization:\n  weights: 8bit_int"),
              ::testing::HasSubstr("t.yaml:2: 'quantization.weights' is not supported"));
  EXPECT_THAT(error("quantization: { group_size: 64 }"),
              ::testing::HasSubstr("'quantization.group_size' is not supported"));
  EXPECT_THAT(error("quantization: { bits: 4 }"),
              ::testing::HasSubstr("'quantization.bits' is unknown"));
  EXPECT_THAT(error(std::string(2 << 20, ' ')), ::testing::HasSubstr("at most"));
}

// Each line names the one before it ten times: 10^9 values from a few hundred bytes.
TEST(ModuleConfigTest, RefusesATextThatStandsForAnEndlessOne) {
  std::string all = "x0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 9; ++i) {
    all += "x" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j)
      all += "*a" + std::to_string(i - 1) + (j < 9 ? "," : "]\n");
  }
  std::string nested = "monitoring:\n";
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\n', begin) + 1;
    nested += "  " + all.substr(begin, end - begin);
    begin = end;
  }
  const auto bomb = ParseModuleConfig(nested, "t");
  ASSERT_FALSE(bomb.ok());
  EXPECT_THAT(bomb.error().message, ::testing::HasSubstr("more values"));
}

TEST(ModuleFlagTest, ReadsOptions) {
  const auto flag = ParseModuleFlag("draft_model:model=a/b.gguf,max_guesses=3,length=fixed");
  ASSERT_TRUE(flag.ok());
  EXPECT_EQ(flag->name, "draft_model");
  EXPECT_EQ(flag->options["model"], "a/b.gguf");
  EXPECT_EQ(flag->options["max_guesses"], 3);
  EXPECT_TRUE(ParseModuleFlag("ngram")->options.empty());
  EXPECT_FALSE(ParseModuleFlag("").ok());
  EXPECT_FALSE(ParseModuleFlag("ngram:x").ok());
  EXPECT_FALSE(ParseModuleFlag("ngram:=3").ok());
  EXPECT_FALSE(ParseModuleFlag("ngram:a=1,a=2").ok());
}

TEST(ParseShareTest, TakesPercentAndFraction) {
  EXPECT_DOUBLE_EQ(*ParseShare("15%"), 0.15);
  EXPECT_DOUBLE_EQ(*ParseShare("0.5"), 0.5);
  EXPECT_DOUBLE_EQ(*ParseShare("0.5%"), 0.005);
  for (const char* bad : {"", "%", "x", "101%", "-1", "1.5", "15 %", "nan"})
    EXPECT_FALSE(ParseShare(bad).ok()) << bad;
}

}  // namespace
}  // namespace tenon

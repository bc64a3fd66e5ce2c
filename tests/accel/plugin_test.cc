// A module from a shared library: the example, and libraries that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accel/plugin/plugin_source.h"

namespace tenon {
namespace {

TEST(PluginTest, ProposesWithinItsLimits) {
  auto source = PluginSource::Load(TENON_CYCLE_PLUGIN, R"({"period":2})");
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  const std::vector<int32_t> tokens = {5, 6, 7};
  SequenceTask task;
  task.key = 9;
  task.tokens = tokens;
  const GuessRequest request{&task, 3};
  ASSERT_TRUE((*source)->Propose({&request, 1}).ok());
  EXPECT_EQ(task.guesses.tokens, (std::vector<int32_t>{6, 7, 6}));
  task.tokens = std::span(tokens).first(1);  // shorter than the period
  ASSERT_TRUE((*source)->Propose({&request, 1}).ok());
  EXPECT_TRUE(task.guesses.tokens.empty());
  (*source)->Forget(9);
  (*source)->Forget(10);
}

TEST(PluginTest, RefusesWhatIsNoPlugin) {
  const auto error = [](const char* library, const char* options) {
    const auto source = PluginSource::Load(library, options);
    return source.ok() ? std::string() : source.error().ToString();
  };
  EXPECT_THAT(error(TENON_CYCLE_PLUGIN, R"({"period":0})"),
              ::testing::HasSubstr("a period of 0 tokens"));
  EXPECT_THAT(error("/no/such/library.so", "{}"), ::testing::HasSubstr("/no/such/library.so"));
  EXPECT_THAT(error("libm.so.6", "{}"), ::testing::HasSubstr("exports no tenon_guess_plugin"));
}

}  // namespace
}  // namespace tenon

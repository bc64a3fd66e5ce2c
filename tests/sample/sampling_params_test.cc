#include "engine/sample/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tenon {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct BadParam {
  std::string field;
  std::string found;  // must stand in the message
  std::function<void(SamplingParams&)> set;
};

const std::vector<BadParam>& BadParams() {
  static const std::vector<BadParam> cases = {
      {"temperature", "nan", [](SamplingParams& p) { p.temperature = kNan; }},
      {"temperature", "inf", [](SamplingParams& p) { p.temperature = kInf; }},
      {"temperature", "-0.5", [](SamplingParams& p) { p.temperature = -0.5F; }},
      {"top_k", "-1", [](SamplingParams& p) { p.top_k = -1; }},
      {"top_p", "1.5", [](SamplingParams& p) { p.top_p = 1.5F; }},
      {"top_p", "nan", [](SamplingParams& p) { p.top_p = kNan; }},
      {"min_p", "-0.25", [](SamplingParams& p) { p.min_p = -0.25F; }},
      {"typical_p", "2", [](SamplingParams& p) { p.typical_p = 2.0F; }},
      {"repetition_penalty", "0", [](SamplingParams& p) { p.repetition_penalty = 0.0F; }},
      {"presence_penalty", "-inf", [](SamplingParams& p) { p.presence_penalty = -kInf; }},
      {"frequency_penalty", "nan", [](SamplingParams& p) { p.frequency_penalty = kNan; }},
      {"penalty_last_n", "-2", [](SamplingParams& p) { p.penalty_last_n = -2; }},
      {"dry_multiplier", "-1", [](SamplingParams& p) { p.dry_multiplier = -1.0F; }},
      {"dry_base", "0.5", [](SamplingParams& p) { p.dry_base = 0.5F; }},
      {"dry_allowed_length", "0", [](SamplingParams& p) { p.dry_allowed_length = 0; }},
      {"dry_penalty_last_n", "-7", [](SamplingParams& p) { p.dry_penalty_last_n = -7; }},
      {"dry_sequence_breakers[1]", "0",
       [](SamplingParams& p) { p.dry_sequence_breakers = {"a", ""}; }},
      {"dry_sequence_breakers", "65",
       [](SamplingParams& p) { p.dry_sequence_breakers.assign(65, "a"); }},
      {"xtc_probability", "1.25", [](SamplingParams& p) { p.xtc_probability = 1.25F; }},
      {"xtc_threshold", "nan", [](SamplingParams& p) { p.xtc_threshold = kNan; }},
      {"mirostat", "1", [](SamplingParams& p) { p.mirostat = 1; }},
      {"mirostat_tau", "-1", [](SamplingParams& p) { p.mirostat_tau = -1.0F; }},
      {"mirostat_eta", "inf", [](SamplingParams& p) { p.mirostat_eta = kInf; }},
      {"logit_bias[1].token", "100", [](SamplingParams& p) { p.logit_bias = {{0, 1}, {100, 1}}; }},
      {"logit_bias[0].token", "-1", [](SamplingParams& p) { p.logit_bias = {{-1, 1}}; }},
      {"logit_bias[0].bias", "nan", [](SamplingParams& p) { p.logit_bias = {{0, kNan}}; }},
      {"logit_bias[0].bias", "inf", [](SamplingParams& p) { p.logit_bias = {{0, kInf}}; }},
      {"logprobs", "-1", [](SamplingParams& p) { p.logprobs = -1; }},
      {"logprobs", "257", [](SamplingParams& p) { p.logprobs = 257; }},
  };
  return cases;
}

TEST(SamplingParams, RefusesWithFieldFoundAndRange) {
  for (const BadParam& test : BadParams()) {
    SamplingParams params;
    test.set(params);
    const Status status = ValidateSamplingParams(params, 100);
    ASSERT_FALSE(status.ok()) << test.field << " " << test.found;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.error().where, test.field);
    EXPECT_NE(status.error().message.find("found " + test.found), std::string::npos)
        << status.error().ToString();
    EXPECT_NE(status.error().message.find("expected "), std::string::npos);
  }
}

TEST(SamplingParams, AcceptsDefaultsAndTheEndsOfTheRanges) {
  EXPECT_TRUE(ValidateSamplingParams({}, 100).ok());
  SamplingParams params;
  params.temperature = 0.0F;
  params.top_k = 0;
  params.top_p = 0.0F;
  params.min_p = 1.0F;
  params.penalty_last_n = -1;
  params.mirostat = 2;
  params.logit_bias = {{99, -kInf}, {0, 100.0F}};
  params.logprobs = 20;
  params.seed = ~uint64_t{0};
  EXPECT_TRUE(ValidateSamplingParams(params, 100).ok());
}

}  // namespace
}  // namespace tenon

// Rotary frequencies against transformers 5.24 (modeling_rope_utils.ROPE_INIT_FUNCTIONS, float32).
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/exec/rotary_tables.h"
#include "model/arch/decoder_builder.h"

namespace tenon {
namespace {

struct RotaryCase {
  const char* name;
  RopeConfig config;
  float magnitude;
  std::vector<double> frequencies;
};

RopeConfig Config(RopeScaling scaling, float base, int64_t dim, float factor, int64_t context) {
  RopeConfig config;
  config.scaling = scaling;
  config.base = base;
  config.rotary_dim = dim;
  config.factor = factor;
  config.original_context = context;
  return config;
}

RopeConfig YarnOf32k() {
  RopeConfig config = Config(RopeScaling::kYarn, 1e6F, 32, 4.0F, 32768);
  config.beta_fast = 8.0F;
  config.beta_slow = 2.0F;
  return config;
}

RopeConfig YarnWithAttentionFactor() {
  RopeConfig config = Config(RopeScaling::kYarn, 1e4F, 16, 4.0F, 256);
  config.attention_factor = 0.75F;
  return config;
}

// 0.1 ln(4) + 1.
constexpr float kYarnMagnitude = 1.138629436F;

std::vector<RotaryCase> Cases() {
  return {
      {"none",  // 10000^(-2i/8)
       Config(RopeScaling::kNone, 1e4F, 8, 1.0F, 0),
       1.0F,
       {1.0, 0.1, 0.01, 0.001}},
      {"linear",
       Config(RopeScaling::kLinear, 1e4F, 16, 4.0F, 0),
       1.0F,
       {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
        0.000250000012, 7.90569466e-05}},
      {"llama3",  // Llama 3.1's numbers: pairs 0 to 7 kept, 8 blended, the others divided by 8
       Config(RopeScaling::kLlama3, 5e5F, 32, 8.0F, 8192),
       1.0F,
       {1.0, 0.440366626, 0.193922758, 0.0853971019, 0.0376060307, 0.0165604409, 0.00729266508,
        0.00321144611, 0.000524846022, 7.78465546e-05, 3.42810235e-05, 1.50962178e-05,
        6.64786967e-06, 2.92749974e-06, 1.28917316e-06, 5.6770881e-07}},
      {"yarn",  // the first pair of the ramp is below 0 and clamped
       Config(RopeScaling::kYarn, 1e4F, 32, 4.0F, 256),
       kYarnMagnitude,
       {1.0, 0.502090454, 0.248464689, 0.120668955, 0.0571428537, 0.0261087008, 0.011293849,
        0.00444569858, 0.00249999994, 0.00140585331, 0.000790569466, 0.000444569858, 0.000250000012,
        0.000140585325, 7.90569466e-05, 4.44569851e-05}},
      {"yarn_betas",  // 8 and 2
       YarnOf32k(),
       kYarnMagnitude,
       {1.0, 0.421696514, 0.177827939, 0.0749894157, 0.0316227786, 0.0133352149, 0.00562341325,
        0.00237137382, 0.000750000007, 0.000210848244, 4.44569851e-05, 1.87473561e-05,
        7.90569356e-06, 3.33380353e-06, 1.40585337e-06, 5.92843435e-07}},
      {"yarn_attention_factor",
       YarnWithAttentionFactor(),
       0.75F,
       {1.0, 0.25693506, 0.0625, 0.0138349654, 0.00249999994, 0.000790569466, 0.000250000012,
        7.90569466e-05}},
  };
}

class RotaryFrequenciesTest : public ::testing::TestWithParam<RotaryCase> {};

TEST_P(RotaryFrequenciesTest, MatchTransformers) {
  const RopeParams params = ToRopeParams(GetParam().config);
  const std::vector<float> frequencies = RotaryFrequencies(params, {});
  ASSERT_EQ(frequencies.size(), GetParam().frequencies.size());
  // Both round a handful of operations to float: 1e-6 is 8 units in the last place.
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double expected = GetParam().frequencies[i];
    EXPECT_NEAR(static_cast<double>(frequencies[i]), expected, expected * 1e-6) << "pair " << i;
  }
  EXPECT_FLOAT_EQ(RotaryMagnitude(params), GetParam().magnitude);
}

INSTANTIATE_TEST_SUITE_P(Rules, RotaryFrequenciesTest, ::testing::ValuesIn(Cases()),
                         [](const auto& rule) { return std::string(rule.param.name); });

TEST(RotaryFactorsTest, DivideEachFrequency) {
  const RopeParams params = ToRopeParams(Config(RopeScaling::kNone, 1e4F, 8, 1.0F, 0));
  const std::vector<float> factors = {1.0F, 2.0F, 4.0F, 8.0F};
  const std::vector<float> frequencies = RotaryFrequencies(params, factors);
  const double expected[] = {1.0, 0.05, 0.0025, 0.000125};
  ASSERT_EQ(frequencies.size(), 4U);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(static_cast<double>(frequencies[i]), expected[i], expected[i] * 1e-6);
}

}  // namespace
}  // namespace tenon

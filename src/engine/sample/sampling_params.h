// SamplingParams: how the next token is chosen from the logits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tenon {

struct LogitBias {
  int32_t token = 0;
  float bias = 0.0F;  // -infinity bans the token
};

struct SamplingParams {
  float temperature = 0.8F;  // 0: greedy
  int32_t top_k = 40;        // 0: off
  float top_p = 0.95F;       // 1: off
  float min_p = 0.05F;       // 0: off
  float typical_p = 1.0F;    // 1: off
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  int32_t penalty_last_n = 64;  // tokens that penalties look at; 0: off, -1: all
  float dry_multiplier = 0.0F;  // 0: off
  float dry_base = 1.75F;
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  float xtc_probability = 0.0F;  // 0: off
  float xtc_threshold = 0.1F;
  int32_t mirostat = 0;  // 0: off, 2: version 2
  float mirostat_tau = 5.0F;
  float mirostat_eta = 0.1F;
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;
  int32_t logprobs = 0;  // how many alternatives to report with each token; 0: none
};

// Refuses NaN, infinite and out-of-range values, naming the field, what was found and the range.
Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab_size);

}  // namespace tenon

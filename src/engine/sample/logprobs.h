// Log-probabilities that are reported with a token.
//
// They are those of the model: the softmax of the logits as the model gave them, before bias,
// penalties, temperature and truncation (what OpenAI documents and vLLM calls raw_logprobs). A
// constraint that masks logits before they reach the sampler does show in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/candidate.h"

namespace tenon {

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0F;  // natural logarithm, <= 0
};

// ln of the sum of exp(logit) over the vocabulary. REQUIRES: no NaN, one logit above -infinity.
double LogSumExp(std::span<const float> logits);

// The `count` most probable tokens, best first; fewer where the rest is impossible. `scratch` is
// overwritten.
std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, size_t count,
                                      double log_sum_exp, Candidates& scratch);

}  // namespace tenon

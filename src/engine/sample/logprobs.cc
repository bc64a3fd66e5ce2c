#include "engine/sample/logprobs.h"

#include <cmath>

#include "engine/sample/top_k.h"

namespace tenon {

double LogSumExp(std::span<const float> logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits)
    sum += static_cast<double>(std::exp(logit - highest));
  return static_cast<double>(highest) + std::log(sum);
}

std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, size_t count,
                                      double log_sum_exp, Candidates& scratch) {
  SelectTopK(logits, count, scratch);
  std::vector<TokenLogprob> top;
  top.reserve(scratch.size());
  for (const Candidate& candidate : scratch) {
    const double logprob = static_cast<double>(candidate.logit) - log_sum_exp;
    top.push_back({candidate.id, static_cast<float>(logprob)});
  }
  return top;
}

}  // namespace tenon

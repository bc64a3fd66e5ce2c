#include "engine/sample/candidate.h"

#include <cmath>

#include "base/check.h"

namespace tenon {
namespace {

float HighestLogit(std::span<const Candidate> candidates) {
  float highest = candidates.front().logit;
  for (const Candidate& candidate : candidates)
    highest = std::max(highest, candidate.logit);
  return highest;
}

}  // namespace

void Softmax(std::span<Candidate> candidates) {
  const float highest = HighestLogit(candidates);
  double sum = 0.0;  // at least 1: the best candidate's own term
  for (Candidate& candidate : candidates) {
    candidate.p = std::exp(candidate.logit - highest);
    sum += static_cast<double>(candidate.p);
  }
  const auto factor = static_cast<float>(1.0 / sum);
  for (Candidate& candidate : candidates)
    candidate.p *= factor;
}

void ApplyTemperature(std::span<Candidate> candidates, float temperature) {
  const float highest = HighestLogit(candidates);
  for (Candidate& candidate : candidates)
    candidate.logit = (candidate.logit - highest) / temperature;
}

size_t Draw(std::span<const Candidate> candidates, double u) {
  double total = 0.0;
  for (const Candidate& candidate : candidates)
    total += static_cast<double>(candidate.p);
  TENON_CHECK(total > 0.0);
  double sum = 0.0;
  size_t last = 0;  // where rounding at the very end leads: the last one that is possible
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].p <= 0.0F)
      continue;
    sum += static_cast<double>(candidates[i].p);
    last = i;
    if (sum > u * total)
      break;
  }
  return last;
}

}  // namespace tenon

#include "engine/sample/typical_p.h"

#include <cmath>
#include <limits>

namespace tenon {
namespace {

float Surprise(const Candidate& candidate) {
  return candidate.p > 0.0F ? -std::log(candidate.p) : std::numeric_limits<float>::infinity();
}

// In nats; a candidate of p = 0 adds nothing, the limit of -p ln p.
double Entropy(const Candidates& candidates) {
  double entropy = 0.0;
  for (const Candidate& candidate : candidates) {
    if (candidate.p > 0.0F)
      entropy += static_cast<double>(candidate.p * Surprise(candidate));
  }
  return entropy;
}

}  // namespace

void TypicalP(Candidates& candidates, float typical_p) {
  Softmax(candidates);
  const auto entropy = static_cast<float>(Entropy(candidates));
  const auto more_typical = [entropy](const Candidate& a, const Candidate& b) {
    const float distance_a = std::abs(Surprise(a) - entropy);
    const float distance_b = std::abs(Surprise(b) - entropy);
    return distance_a != distance_b ? distance_a < distance_b : Better(a, b);
  };
  KeepFewestReaching(candidates, static_cast<double>(typical_p), more_typical);
}

}  // namespace tenon

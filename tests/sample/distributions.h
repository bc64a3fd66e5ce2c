// Small distributions for the tests of the sampler.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "engine/sample/candidate.h"

namespace tenon {

inline constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Logits whose softmax is `p`.
inline std::vector<float> LogitsOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double value : p)
    logits.push_back(value > 0.0 ? static_cast<float>(std::log(value)) : kBanned);
  return logits;
}

// All tokens with p > 0, in the order of their ids.
inline Candidates CandidatesOf(const std::vector<float>& logits) {
  Candidates list;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kBanned)
      list.push_back({static_cast<int32_t>(i), logits[i], 0.0F});
  }
  return list;
}

inline std::vector<int32_t> IdsOf(const Candidates& list) {
  std::vector<int32_t> ids;
  for (const Candidate& candidate : list)
    ids.push_back(candidate.id);
  return ids;
}

inline std::vector<float> RandomLogits(std::mt19937_64& random, size_t size, float spread) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(size);
  for (float& logit : logits)
    logit = normal(random);
  return logits;
}

// In double, apart from the code under test.
inline std::vector<double> ReferenceSoftmax(const std::vector<float>& logits,
                                            double temperature = 1.0) {
  double highest = -1e300;
  for (const float logit : logits)
    highest = std::max(highest, static_cast<double>(logit));
  std::vector<double> p;
  double sum = 0.0;
  for (const float logit : logits) {
    p.push_back(std::exp((static_cast<double>(logit) - highest) / temperature));
    sum += p.back();
  }
  for (double& value : p)
    value /= sum;
  return p;
}

// Pearson's statistic of counts against probabilities.
inline double ChiSquare(const std::vector<int>& counts, const std::vector<double>& p) {
  double draws = 0.0;
  for (const int count : counts)
    draws += count;
  double statistic = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (p[i] > 0.0)
      statistic += (counts[i] - draws * p[i]) * (counts[i] - draws * p[i]) / (draws * p[i]);
    else if (counts[i] > 0)
      return 1e300;
  }
  return statistic;
}

}  // namespace tenon

#include "accel/routing/confidence.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

// exp(-25) times a vocabulary of 250,000 is below 1e-5: such tokens change no decision.
constexpr float kNegligible = -25.0F;

struct TopTwo {
  size_t best = 0;
  float first = 0.0F;
  float second = 0.0F;
};

TopTwo FindTopTwo(std::span<const float> logits) {
  TopTwo top{0, logits[0], -INFINITY};
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > top.first) {
      top = {i, logits[i], top.first};
    } else if (logits[i] > top.second) {
      top.second = logits[i];
    }
  }
  return top;
}

}  // namespace

// With d = x - max, S = sum e^d and T = sum d e^d: p1 = 1 / S, H = ln S - T / S.
RowConfidence MeasureConfidence(std::span<const float> logits) {
  const TopTwo top = FindTopTwo(logits);
  double sum = 0.0;
  double weighted = 0.0;
  for (const float logit : logits) {
    const float difference = logit - top.first;
    if (difference < kNegligible)
      continue;
    const auto e = static_cast<double>(std::exp(difference));
    sum += e;
    weighted += static_cast<double>(difference) * e;
  }
  RowConfidence result;
  result.best = static_cast<int32_t>(top.best);
  result.top1 = 1.0 / sum;
  result.margin = (1.0 - static_cast<double>(std::exp(top.second - top.first))) / sum;
  const double entropy = std::log(sum) - weighted / sum;
  result.entropy =
      std::clamp(1.0 - entropy / std::log(static_cast<double>(logits.size())), 0.0, 1.0);
  result.log_sum_exp = static_cast<double>(top.first) + std::log(sum);
  return result;
}

}  // namespace tenon

#include "accel/speculation/acceptance.h"

#include <cmath>

namespace tenon {

void Acceptance::Observe(int64_t proposed, int64_t accepted) {
  const int64_t trials = accepted + (accepted < proposed ? 1 : 0);
  const double kept = std::pow(kFading, static_cast<double>(trials));
  successes_ = successes_ * kept + static_cast<double>(accepted);
  trials_ = trials_ * kept + static_cast<double>(trials);
}

double Acceptance::ExpectedTokens(int64_t guesses) const {
  double sum = 1.0;
  double power = 1.0;
  for (int64_t i = 0; i < guesses; ++i) {
    power *= rate();
    sum += power;
  }
  return sum;
}

}  // namespace tenon

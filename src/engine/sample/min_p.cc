#include "engine/sample/min_p.h"

#include <cmath>

namespace tenon {

// p >= min_p * p_best  is  logit >= logit_best + ln(min_p): no softmax needed.
void MinP(Candidates& candidates, float min_p) {
  if (min_p <= 0.0F)
    return;
  const Candidate best = *std::min_element(candidates.begin(), candidates.end(), Better);
  const float threshold = best.logit + std::log(min_p);
  const auto below = [threshold](const Candidate& c) { return c.logit < threshold; };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), below), candidates.end());
}

}  // namespace tenon

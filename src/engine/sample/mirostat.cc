#include "engine/sample/mirostat.h"

#include <cmath>

namespace tenon {

void Mirostat::Truncate(Candidates& candidates) const {
  Softmax(candidates);
  const Candidate best = *std::min_element(candidates.begin(), candidates.end(), Better);
  const float least = std::exp2(-mu_);
  const auto surprising = [&](const Candidate& c) { return c.p < least && c.id != best.id; };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), surprising),
                   candidates.end());
  Softmax(candidates);
}

void Mirostat::Observe(float p) {
  const float surprise = -std::log2(p);
  mu_ -= eta_ * (surprise - tau_);
}

}  // namespace tenon

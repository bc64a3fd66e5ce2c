#include "accel/manager/gain_meter.h"

#include <algorithm>
#include <vector>

#include "accel/manager/median.h"

namespace tenon {
void GainMeter::Observe(Side side, const StepCost& cost) {
  if (cost.sequences <= 0 || cost.tokens < 0 || !(cost.seconds > 0.0))
    return;
  const size_t kind = std::min(static_cast<size_t>(cost.sequences), kSequenceKinds - 1);
  Sum& sum = sums_[static_cast<size_t>(side)][kind];
  sum.tokens += cost.tokens;
  sum.seconds += cost.seconds;
}

// Weighted by the tokens of the side that has fewer of them.
void GainMeter::EndRound() {
  Pair pair;
  int64_t weight = 0;
  for (size_t kind = 0; kind < kSequenceKinds; ++kind) {
    const Sum& with = sums_[0][kind];
    const Sum& without = sums_[1][kind];
    const int64_t both = std::min(with.tokens, without.tokens);
    if (both == 0)
      continue;
    const auto share = static_cast<double>(both);
    pair.with += share * with.seconds / static_cast<double>(with.tokens);
    pair.without += share * without.seconds / static_cast<double>(without.tokens);
    weight += both;
  }
  sums_ = {};
  if (weight == 0)
    return;
  pair.with /= static_cast<double>(weight);
  pair.without /= static_cast<double>(weight);
  recent_.push_back(pair);
  if (recent_.size() > kMaxPairs)
    recent_.pop_front();
  ++pairs_made_;
}

void GainMeter::Reset() {
  sums_ = {};
  recent_.clear();
}

std::optional<double> GainMeter::Saving() const {
  if (recent_.size() < kMinPairs)
    return std::nullopt;
  std::vector<double> with;
  std::vector<double> without;
  for (const Pair& pair : recent_) {
    with.push_back(pair.with);
    without.push_back(pair.without);
  }
  return 1.0 - Median(std::move(with)) / Median(std::move(without));
}

}  // namespace tenon

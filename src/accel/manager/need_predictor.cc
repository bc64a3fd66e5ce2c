#include "accel/manager/need_predictor.h"

#include <algorithm>

namespace tenon {

void NeedPredictor::ObserveArrival(size_t kind, Time now) {
  kind = std::min(kind, kKinds - 1);
  if (last_kind_.has_value()) {
    auto& row = follows_[*last_kind_];
    for (double& weight : row)
      weight *= kDecay;
    row[kind] += 1.0;
    const double interval = std::chrono::duration<double>(now - last_arrival_).count();
    interval_s_ = interval_s_ > 0.0 ? kDecay * interval_s_ + (1.0 - kDecay) * interval : interval;
  }
  last_kind_ = kind;
  last_arrival_ = now;
}

void NeedPredictor::ObserveNeed(size_t kind, size_t module, double need) {
  if (module >= ModuleBits::kMaxModules)
    return;
  Rate& rate = needs_[std::min(kind, kKinds - 1)][module];
  rate.weight = rate.weight * kDecay + 1.0;
  rate.needed = rate.needed * kDecay + std::clamp(need, 0.0, 1.0);
}

double NeedPredictor::NeedOf(size_t kind, size_t module) const {
  const Rate& rate = needs_[std::min(kind, kKinds - 1)][module];
  return rate.weight > 0.0 ? rate.needed / rate.weight : kUnknown;
}

double NeedPredictor::NextNeed(size_t module) const {
  if (!last_kind_.has_value())
    return kUnknown;
  double weight = 0.0;
  double need = 0.0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const double follows = follows_[*last_kind_][kind];
    weight += follows;
    need += follows * NeedOf(kind, module);
  }
  return weight > 0.0 ? need / weight : NeedOf(*last_kind_, module);
}

std::optional<NeedPredictor::Time> NeedPredictor::NextArrival() const {
  if (!(interval_s_ > 0.0))
    return std::nullopt;
  return last_arrival_ +
         std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(interval_s_));
}

ModuleBits ModulesToWarm(const NeedPredictor& predictor, const PreloadRule& rule, ModuleBits active,
                         ModuleBits warm, NeedPredictor::Time now) {
  const auto next = predictor.NextArrival();
  ModuleBits result;
  if (next.has_value() && *next > now + rule.horizon)
    return result;
  for (size_t module = 0; module < ModuleBits::kMaxModules; ++module) {
    if (active.Has(module) && !warm.Has(module) && predictor.NextNeed(module) >= rule.min_need)
      result = result.With(module);
  }
  return result;
}

}  // namespace tenon

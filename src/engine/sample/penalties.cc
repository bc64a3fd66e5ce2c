#include "engine/sample/penalties.h"

#include <algorithm>
#include <limits>

namespace tenon {

float AddToLogit(float logit, float delta) {
  return std::min(logit + delta, std::numeric_limits<float>::max());
}

Penalties::Penalties(const SamplingParams& params, int32_t vocab_size)
    : repetition_(params.repetition_penalty),
      presence_(params.presence_penalty),
      frequency_(params.frequency_penalty),
      last_n_(params.penalty_last_n) {
  const bool neutral = repetition_ == 1.0F && presence_ == 0.0F && frequency_ == 0.0F;
  if (last_n_ == 0 || neutral)
    return;
  counts_.assign(static_cast<size_t>(vocab_size), kUnlisted);
  listed_.reserve(static_cast<size_t>(last_n_ > 0 ? std::min(last_n_, vocab_size) : vocab_size));
}

void Penalties::Accept(std::span<const int32_t> history) {
  if (!enabled())
    return;
  const int32_t token = history.back();
  int32_t& count = counts_[static_cast<size_t>(token)];
  if (count == kUnlisted) {
    listed_.push_back(token);
    count = 0;
  }
  ++count;
  const auto window = static_cast<size_t>(std::max(last_n_, 0));
  if (window > 0 && history.size() > window)
    --counts_[static_cast<size_t>(history[history.size() - 1 - window])];
}

// Tokens that left the window are taken off the list on the way, so a token costs one step for each
// different one among the last.
void Penalties::Apply(std::span<float> logits) {
  size_t kept = 0;
  for (const int32_t token : listed_) {
    int32_t& count = counts_[static_cast<size_t>(token)];
    if (count == 0) {
      count = kUnlisted;
      continue;
    }
    float& logit = logits[static_cast<size_t>(token)];
    logit = Penalized(logit, count);
    listed_[kept++] = token;
  }
  listed_.resize(kept);
}

float Penalties::Penalized(float logit, int32_t count) const {
  const float scaled = logit > 0.0F ? logit / repetition_ : logit * repetition_;
  return AddToLogit(scaled, -(presence_ + frequency_ * static_cast<float>(count)));
}

}  // namespace tenon

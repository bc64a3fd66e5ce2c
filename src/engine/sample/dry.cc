#include "engine/sample/dry.h"

#include <algorithm>
#include <cmath>

#include "engine/sample/penalties.h"

namespace tenon {
namespace {

// Beyond any logit, and far enough from the end of float for sums to stay finite.
constexpr double kLargestPenalty = 1e30;

bool ByLastToken(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return a.back() < b.back();
}

bool EndsWith(std::span<const int32_t> tokens, std::span<const int32_t> tail) {
  return tokens.size() >= tail.size() &&
         std::equal(tail.begin(), tail.end(), tokens.last(tail.size()).begin());
}

}  // namespace

Dry::Dry(const SamplingParams& params, int32_t vocab_size, DryBreakers breakers)
    : multiplier_(params.dry_multiplier),
      base_(params.dry_base),
      allowed_length_(params.dry_allowed_length),
      last_n_(params.dry_penalty_last_n) {
  if (multiplier_ == 0.0F || last_n_ == 0)
    return;
  longest_.assign(static_cast<size_t>(vocab_size), 0);
  is_breaker_.assign(static_cast<size_t>(vocab_size), false);
  for (std::vector<int32_t>& breaker : breakers) {
    if (breaker.size() == 1)
      is_breaker_[static_cast<size_t>(breaker.front())] = true;
    else
      breakers_.push_back(std::move(breaker));
  }
  std::sort(breakers_.begin(), breakers_.end(), ByLastToken);
}

void Dry::Accept(std::span<const int32_t> history) {
  if (enabled() && EndsWithBreaker(history))
    after_breaker_ = history.size();
}

bool Dry::EndsWithBreaker(std::span<const int32_t> history) const {
  const int32_t last = history.back();
  if (is_breaker_[static_cast<size_t>(last)])
    return true;
  const auto before = [](const std::vector<int32_t>& b, int32_t token) { return b.back() < token; };
  auto it = std::lower_bound(breakers_.begin(), breakers_.end(), last, before);
  for (; it != breakers_.end() && it->back() == last; ++it) {
    if (EndsWith(history, *it))
      return true;
  }
  return false;
}

void Dry::Apply(std::span<const int32_t> history, std::span<float> logits) {
  if (!enabled())
    return;
  const size_t looked_at =
      last_n_ < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(last_n_));
  const size_t limit = std::min(looked_at, history.size() - after_breaker_);
  if (limit < static_cast<size_t>(allowed_length_))
    return;
  FindRepetitions(history.last(looked_at), limit);
  for (const int32_t token : touched_) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = AddToLogit(logit, -PenaltyOf(longest_[static_cast<size_t>(token)]));
    longest_[static_cast<size_t>(token)] = 0;
  }
  touched_.clear();
}

// The Z-algorithm (Gusfield, "Algorithms on strings, trees and sequences", 1997, section 1.4) on
// the window read backwards: match_[j] is how many tokens before and at `j from the end` equal the
// last ones. Linear in the window, whatever it holds.
void Dry::FindRepetitions(std::span<const int32_t> window, size_t limit) {
  const size_t size = window.size();
  const auto backwards = [&](size_t j) { return window[size - 1 - j]; };
  match_.assign(size, 0);
  size_t left = 0;
  size_t right =
      0;  // [left, right) is the stretch furthest on that is known to match the beginning
  for (size_t j = 1; j < size; ++j) {
    size_t length = j < right ? std::min(match_[j - left], right - j) : 0;
    while (j + length < size && backwards(length) == backwards(j + length))
      ++length;
    if (j + length > right) {
      left = j;
      right = j + length;
    }
    match_[j] = length;
    Note(backwards(j - 1), std::min(length, limit));
  }
}

void Dry::Note(int32_t next, size_t length) {
  const auto index = static_cast<size_t>(next);
  const auto found = static_cast<int32_t>(length);
  if (found < allowed_length_ || found <= longest_[index] || is_breaker_[index])
    return;
  if (longest_[index] == 0)
    touched_.push_back(next);
  longest_[index] = found;
}

float Dry::PenaltyOf(int32_t length) const {
  const double power =
      std::pow(static_cast<double>(base_), static_cast<double>(length - allowed_length_));
  return static_cast<float>(std::min(static_cast<double>(multiplier_) * power, kLargestPenalty));
}

}  // namespace tenon

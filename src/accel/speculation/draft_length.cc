#include "accel/speculation/draft_length.h"

#include <algorithm>

namespace tenon {
namespace {

// Weight of the newest cost.
constexpr double kNewest = 0.2;
// A draft must promise this much more than a plain step: estimates are noisy, and a wrong yes costs
// more than a wrong no.
constexpr double kMargin = 1.02;

}  // namespace

void DraftLength::ObserveGuesses(int64_t guesses, double seconds) {
  if (guesses <= 0)
    return;
  const double each = seconds / static_cast<double>(guesses);
  guess_s_ = guess_s_ == 0.0 ? each : guess_s_ + kNewest * (each - guess_s_);
}

double DraftLength::ExpectedRate(std::span<const Acceptance* const> sequences, int64_t step_tokens,
                                 int64_t guesses) const {
  const auto count = static_cast<int64_t>(sequences.size());
  double tokens = static_cast<double>(std::max<int64_t>(step_tokens - count, 0));
  for (const Acceptance* acceptance : sequences)
    tokens += acceptance->ExpectedTokens(guesses);
  const double seconds =
      StepSeconds(step_tokens + count * guesses) + guess_s_ * static_cast<double>(count * guesses);
  return seconds > 0.0 ? tokens / seconds : 0.0;
}

int64_t DraftLength::Best(std::span<const Acceptance* const> sequences, int64_t step_tokens,
                          int64_t most) const {
  const double plain = ExpectedRate(sequences, step_tokens, 0);
  if (plain == 0.0)
    return most;  // nothing is known yet
  int64_t best = 0;
  double best_rate = plain * kMargin;
  for (int64_t guesses = 1; guesses <= most; ++guesses) {
    const double rate = ExpectedRate(sequences, step_tokens, guesses);
    if (rate > best_rate) {
      best = guesses;
      best_rate = rate;
    }
  }
  return best;
}

int64_t DraftLength::Worthwhile(const Acceptance& acceptance, int64_t step_tokens,
                                int64_t sequences, int64_t length) const {
  const double plain = StepSeconds(step_tokens);
  if (options_.policy == LengthPolicy::kFixed || sequences < 2 || plain == 0.0 || length <= 0)
    return length;
  const auto added = static_cast<double>(sequences * length);
  const double cost = guess_s_ + (StepSeconds(step_tokens + sequences * length) - plain) / added;
  const double token = plain / static_cast<double>(step_tokens);
  double right = acceptance.rate();  // probability that the next guess is right
  int64_t guesses = 0;
  for (; guesses < length && right * token >= cost; ++guesses)
    right *= acceptance.rate();
  return guesses;
}

int64_t DraftLength::Choose(std::span<const Acceptance* const> sequences, int64_t step_tokens,
                            int64_t room) {
  const int64_t most = std::min(options_.most, room);
  if (sequences.empty() || most <= 0)
    return 0;
  if (options_.policy == LengthPolicy::kFixed)
    return most;
  const int64_t best = Best(sequences, step_tokens, most);
  if (++rounds_ % kProbeEvery != 0)
    return best;
  next_probe_ = (next_probe_ + 1) % (most + 1);
  return next_probe_;
}

}  // namespace tenon

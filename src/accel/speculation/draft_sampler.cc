#include "accel/speculation/draft_sampler.h"

#include "base/check.h"

namespace tenon {

// Mirostat's bound moves with each drawn token's own probability, which only the target knows:
// there a guess is right when it is the token that is drawn.
void DraftSampler::Begin(SequenceTask& task) {
  task.guesses = {};
  const Sampler& own = *task.samplers.front();
  by_rejection_ = acceptance_ == GuessAcceptance::kRejection && own.params().mirostat == 0 &&
                  own.params().temperature > 0.0F;
  sampler_ = own;
}

Status DraftSampler::Draw(SequenceTask& task, std::span<const float> logits) {
  TENON_CHECK(sampler_.has_value());
  const DrawPurpose purpose = by_rejection_ ? DrawPurpose::kGuess : DrawPurpose::kToken;
  TENON_ASSIGN_OR_RETURN(const int32_t token, sampler_->Guess(logits, purpose));
  if (by_rejection_) {
    const auto distribution = sampler_->distribution();
    task.guesses.drawn_from.emplace_back(distribution.begin(), distribution.end());
  }
  sampler_->Accept(token);
  task.guesses.tokens.push_back(token);
  return {};
}

}  // namespace tenon

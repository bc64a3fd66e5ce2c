#include "engine/sample/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/sample/min_p.h"
#include "engine/sample/philox.h"
#include "engine/sample/rejection.h"
#include "engine/sample/top_k.h"
#include "engine/sample/top_p.h"
#include "engine/sample/typical_p.h"
#include "engine/sample/xtc.h"

namespace tenon {
namespace {

// False for NaN and +infinity.
bool IsUsable(float logit) {
  return logit <= std::numeric_limits<float>::max();
}

Error UnusableLogit(std::span<const float> logits) {
  const auto bad = std::find_if_not(logits.begin(), logits.end(), IsUsable);
  return MakeError(ErrorCode::kInternal,
                   fmt::format("the logit of token {} is {}, expected a finite number or -infinity",
                               bad - logits.begin(), *bad),
                   "logits");
}

Status CheckTokens(std::span<const int32_t> tokens, int32_t vocab_size, std::string_view what) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      return InvalidArgument(
          fmt::format("found token {}, expected 0 to {}", tokens[i], vocab_size - 1),
          fmt::format("{}[{}]", what, i));
    }
  }
  return {};
}

Status CheckBreakers(const DryBreakers& breakers, int32_t vocab_size) {
  for (const std::vector<int32_t>& breaker : breakers) {
    if (breaker.empty())
      return InvalidArgument("found a breaker without tokens", "dry_sequence_breakers");
    TENON_RETURN_IF_ERROR(CheckTokens(breaker, vocab_size, "dry_sequence_breakers"));
  }
  return {};
}

}  // namespace

Result<Sampler> Sampler::Create(SamplingParams params, int32_t vocab_size, DryBreakers breakers) {
  if (vocab_size <= 0)
    return InvalidArgument(fmt::format("found {}, expected 1 or more", vocab_size), "vocab_size");
  TENON_RETURN_IF_ERROR(ValidateSamplingParams(params, vocab_size));
  TENON_RETURN_IF_ERROR(CheckBreakers(breakers, vocab_size));
  return Sampler(std::move(params), vocab_size, std::move(breakers));
}

Sampler::Sampler(SamplingParams params, int32_t vocab_size, DryBreakers breakers)
    : params_(std::move(params)),
      vocab_size_(vocab_size),
      penalties_(params_, vocab_size),
      dry_(params_, vocab_size, std::move(breakers)) {
  if (params_.mirostat == 2)
    mirostat_.emplace(params_.mirostat_tau, params_.mirostat_eta);
}

Status Sampler::AcceptPrompt(std::span<const int32_t> tokens) {
  TENON_RETURN_IF_ERROR(CheckTokens(tokens, vocab_size_, "prompt"));
  for (const int32_t token : tokens)
    Remember(token);
  return {};
}

void Sampler::Accept(int32_t token) {
  TENON_CHECK(token >= 0 && token < vocab_size_);
  Remember(token);
  ++generated_;
  digest_ = ExtendDigest(digest_, token);
  if (cursor_.has_value())
    cursor_->Accept(token);
  if (mirostat_ && token == last_draw_.token)
    mirostat_->Observe(last_draw_.p);
  last_draw_ = {};
}

void Sampler::Restart(std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  history_.clear();
  penalties_ = Penalties(params_, vocab_size_);
  dry_.Restart();
  if (mirostat_)
    mirostat_.emplace(params_.mirostat_tau, params_.mirostat_eta);
  generated_ = 0;
  digest_ = 0;
  last_draw_ = {};
  if (cursor_.has_value())
    cursor_->Restart();
  for (const int32_t token : prompt)
    Remember(token);
  for (const int32_t token : answer)
    Accept(token);
}

// A step of FNV-1a (Fowler, Noll, Vo) over the token as one 32-bit unit; 1 + token, so that a run
// of zeros is seen.
uint64_t Sampler::ExtendDigest(uint64_t digest, int32_t token) {
  constexpr uint64_t kPrime = 0x100000001B3;
  constexpr uint64_t kBasis = 0xCBF29CE484222325;
  return ((digest ^ kBasis) ^ (1 + static_cast<uint64_t>(static_cast<uint32_t>(token)))) * kPrime;
}

void Sampler::Remember(int32_t token) {
  if (!penalties_.enabled() && !dry_.enabled())
    return;
  history_.push_back(token);
  penalties_.Accept(history_);
  dry_.Accept(history_);
}

Result<SampledToken> Sampler::Sample(std::span<const float> logits) {
  SampledToken sampled;
  TENON_ASSIGN_OR_RETURN(sampled.token, Guess(logits, DrawPurpose::kToken));
  if (params_.logprobs > 0)
    AddLogprobs(logits, sampled);
  return sampled;
}

Result<int32_t> Sampler::Guess(std::span<const float> logits, DrawPurpose purpose) {
  TENON_RETURN_IF_ERROR(TakeLogits(logits));
  Adjust();
  TENON_RETURN_IF_ERROR(SelectCandidates());
  Shape();
  return DrawToken(purpose);
}

Result<SampledToken> Sampler::SampleAgainst(std::span<const float> logits, int32_t guess,
                                            std::span<const Candidate> drawn_from) {
  TENON_RETURN_IF_ERROR(TakeLogits(logits));
  Adjust();
  TENON_RETURN_IF_ERROR(SelectCandidates());
  Shape();
  const RejectionDraws draws{UniformAt(params_.seed, generated_, DrawPurpose::kAccept),
                             UniformAt(params_.seed, generated_, DrawPurpose::kResidual)};
  const Candidate drawn = AcceptOrReplace(candidates_, drawn_from, guess, draws);
  last_draw_ = {drawn.id, drawn.p};
  SampledToken sampled;
  sampled.token = drawn.id;
  if (params_.logprobs > 0)
    AddLogprobs(logits, sampled);
  return sampled;
}

Status Sampler::TakeLogits(std::span<const float> logits) {
  if (logits.size() != static_cast<size_t>(vocab_size_)) {
    return InvalidArgument(fmt::format("found {} logits, expected {}", logits.size(), vocab_size_),
                           "logits");
  }
  int unusable = 0;
  for (const float logit : logits)
    unusable |= static_cast<int>(!IsUsable(logit));
  if (unusable != 0)
    return UnusableLogit(logits);
  logits_.assign(logits.begin(), logits.end());
  if (cursor_.has_value())
    Ban(cursor_->Mask());
  if (cursor_.has_value() && cursor_->IsExhausted())
    return InvalidArgument("the demanded form of the answer is too ambiguous to follow it");
  return {};
}

void Sampler::Ban(std::span<const uint64_t> allowed) {
  TENON_CHECK(allowed.size() * 64 >= logits_.size());
  for (size_t word = 0; word < allowed.size(); ++word) {
    const uint64_t bits = allowed[word];
    if (bits == ~uint64_t{0})
      continue;
    const size_t end = std::min(word * 64 + 64, logits_.size());
    for (size_t i = word * 64; i < end; ++i) {
      if ((bits >> (i % 64) & 1) == 0)
        logits_[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

void Sampler::Adjust() {
  for (const LogitBias& entry : params_.logit_bias) {
    float& logit = logits_[static_cast<size_t>(entry.token)];
    logit = AddToLogit(logit, entry.bias);
  }
  penalties_.Apply(logits_);
  dry_.Apply(history_, logits_);
}

Status Sampler::SelectCandidates() {
  const bool greedy = params_.temperature == 0.0F;
  const size_t count = greedy ? 1 : mirostat_ ? 0 : static_cast<size_t>(params_.top_k);
  SelectTopK(logits_, count, candidates_);
  if (!candidates_.empty())
    return {};
  return InvalidArgument(
      fmt::format("all {} tokens are banned, expected at least one that can be chosen",
                  vocab_size_),
      "logits");
}

// Candidates with the p that the draw goes by.
void Sampler::Shape() {
  if (params_.temperature == 0.0F) {
    candidates_.front().p = 1.0F;
    return;
  }
  if (!mirostat_)
    Truncate();
  ApplyTemperature(candidates_, params_.temperature);
  if (mirostat_)
    mirostat_->Truncate(candidates_);
  else
    Softmax(candidates_);
}

int32_t Sampler::DrawToken(DrawPurpose purpose) {
  if (params_.temperature == 0.0F)
    return candidates_.front().id;
  const double u = UniformAt(params_.seed, generated_, purpose);
  const Candidate& drawn = candidates_[Draw(candidates_, u)];
  last_draw_ = {drawn.id, drawn.p};
  return drawn.id;
}

void Sampler::Truncate() {
  if (params_.typical_p < 1.0F)
    TypicalP(candidates_, params_.typical_p);
  if (params_.top_p < 1.0F)
    Softmax(candidates_);
  MinP(candidates_, params_.min_p);  // the same before top-p as after it (top_p.h)
  if (params_.top_p < 1.0F)
    TopP(candidates_, params_.top_p);
  if (params_.xtc_probability > 0.0F && UniformAt(params_.seed, generated_, DrawPurpose::kXtc) <
                                            static_cast<double>(params_.xtc_probability)) {
    ExcludeTopChoices(candidates_, params_.xtc_threshold);
  }
}

void Sampler::AddLogprobs(std::span<const float> logits, SampledToken& sampled) {
  const double log_sum_exp = LogSumExp(logits);
  const auto logit = static_cast<double>(logits[static_cast<size_t>(sampled.token)]);
  sampled.logprob = static_cast<float>(logit - log_sum_exp);
  sampled.top =
      TopLogprobs(logits, static_cast<size_t>(params_.logprobs), log_sum_exp, candidates_);
}

}  // namespace tenon

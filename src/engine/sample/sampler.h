// Sampler: chooses one sequence's next token from its logits.
//
// The chain, in llama.cpp's default order: logit bias, penalties, DRY, top-k, typical-p, top-p,
// min-p, XTC, temperature, draw. Each filter works on the probabilities among the candidates that
// the filters before it left. Mirostat takes the place of the truncating filters: temperature, then
// its own bound on the surprise. Temperature 0 is greedy: the highest logit after bias, penalties
// and DRY, of equal ones the lowest id, without a random number.
//
// The randomness of a token depends on the seed and on how many tokens were generated before, not
// on how often Sample was called: Sample twice without Accept gives the same token twice.
//
// Owns the history of tokens and scratch of the vocabulary's size; after the first token nothing is
// allocated, but for the growth of the history and for logprobs where they are asked for.
// Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/constrain/constraint.h"
#include "engine/sample/candidate.h"
#include "engine/sample/dry.h"
#include "engine/sample/logprobs.h"
#include "engine/sample/mirostat.h"
#include "engine/sample/penalties.h"
#include "engine/sample/philox.h"
#include "engine/sample/sampling_params.h"

namespace tenon {

struct SampledToken {
  int32_t token = 0;
  // Both only with params.logprobs > 0, of the model's own distribution (logprobs.h).
  float logprob = 0.0F;
  std::vector<TokenLogprob> top;  // params.logprobs entries, best first
  // Set where one of several models decided it, for the audit of an answer: which ("small",
  // "large"; a literal), and how sure it was, 0 where that was not measured.
  std::string_view decided_by = {};
  float confidence = 0.0F;
};

class Sampler {
 public:
  // Fails with kInvalidArgument for parameters that ValidateSamplingParams refuses and for breaker
  // tokens outside the vocabulary. `breakers` matters to DRY only (dry_breakers.h).
  static Result<Sampler> Create(SamplingParams params, int32_t vocab_size,
                                DryBreakers breakers = {});

  // The prompt's tokens: penalties and DRY look back at them. Fails, changing nothing, when one of
  // them is outside the vocabulary.
  Status AcceptPrompt(std::span<const int32_t> tokens);

  // Chooses from logits [vocab]; -infinity marks a token that can't be chosen. Fails with
  // kInvalidArgument for a wrong size or when every token is banned, and with kInternal for a NaN
  // or +infinity, naming the token.
  Result<SampledToken> Sample(std::span<const float> logits);

  // The token alone, without logprobs, drawn with the random number of `purpose`: for a copy of a
  // request's sampler that guesses what the request's own one will draw. With kToken it meets the
  // same number, and so tends to meet the same token.
  Result<int32_t> Guess(std::span<const float> logits, DrawPurpose purpose);
  // The distribution of the last token that Sample or Guess drew: candidates with their p. Valid
  // until the next draw; not after a Sample with logprobs.
  std::span<const Candidate> distribution() const { return candidates_; }

  // Sample by rejection (rejection.h): `guess` was drawn from `drawn_from` with
  // DrawPurpose::kGuess. Gives the guess back where it is accepted, else another token; either way
  // as if drawn from this sampler's own distribution.
  Result<SampledToken> SampleAgainst(std::span<const float> logits, int32_t guess,
                                     std::span<const Candidate> drawn_from);

  // The sequence goes on with `token`, whether it was sampled or forced. REQUIRES: within the
  // vocabulary.
  void Accept(int32_t token);

  // Begins again: as after AcceptPrompt(prompt) and Accept for each token of `answer`, but for
  // mirostat's running bound, which starts anew. REQUIRES: within the vocabulary.
  void Restart(std::span<const int32_t> prompt, std::span<const int32_t> answer);

  // Changes with every accepted token, their order and their number: a check that an answer is what
  // was drawn. Not a hash against forgery.
  uint64_t digest() const { return digest_; }
  static uint64_t ExtendDigest(uint64_t digest, int32_t token);

  // From here on only tokens that the constraint allows are chosen; Accept moves on in it. Logprobs
  // stay those of the model's own distribution. REQUIRES: the constraint outlives the sampler.
  void Constrain(Constraint& constraint) { cursor_.emplace(constraint); }
  // A constraint was met in full: nothing but an end may follow.
  bool IsComplete() const { return cursor_.has_value() && cursor_->IsOver(); }

  const SamplingParams& params() const { return params_; }
  uint64_t generated() const { return generated_; }  // tokens accepted after the prompt

 private:
  // A draw that Accept may confirm.
  struct LastDraw {
    int32_t token = -1;
    float p = 0.0F;
  };

  Sampler(SamplingParams params, int32_t vocab_size, DryBreakers breakers);

  Status TakeLogits(std::span<const float> logits);
  void Ban(std::span<const uint64_t> allowed);
  void Adjust();
  Status SelectCandidates();
  void Shape();
  int32_t DrawToken(DrawPurpose purpose);
  void Truncate();
  void AddLogprobs(std::span<const float> logits, SampledToken& sampled);
  void Remember(int32_t token);

  SamplingParams params_;
  int32_t vocab_size_;
  Penalties penalties_;
  Dry dry_;
  std::optional<Mirostat> mirostat_;
  std::vector<int32_t> history_;  // prompt and answer; empty unless something looks back
  uint64_t generated_ = 0;        // tokens accepted after the prompt
  uint64_t digest_ = 0;           // of them
  LastDraw last_draw_;
  std::optional<ConstraintCursor> cursor_;
  std::vector<float> logits_;  // [vocab] after bias, penalties and DRY
  Candidates candidates_;
};

}  // namespace tenon

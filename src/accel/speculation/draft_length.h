// DraftLength: how many guesses a round should have, from what rounds have cost and given.
//
// A round with g guesses for each of k sequences decides sum E_i(g) tokens (acceptance.h) and costs
// k g times a guess plus a verifying step over n + k g tokens; without guesses it decides k and
// costs a step over n. The length with the most tokens a second wins, 0 among them: below
// break-even the module stands back. Costs are measured, never assumed; where nothing was measured,
// a step is taken to cost what the largest smaller one did, so that lengths are tried before they
// are ruled out. Every kProbeEvery rounds another length than the best is run, in turn, 0 too, so
// that costs and acceptance follow the context and the machine.
//
// Never reads a clock. Threading: values.
#pragma once

#include <cstdint>
#include <span>

#include "accel/speculation/acceptance.h"
#include "engine/sched/step_time_model.h"

namespace tenon {

enum class LengthPolicy : uint8_t {
  kAdaptive,
  kFixed,  // always `most`
};

struct DraftLengthOptions {
  LengthPolicy policy = LengthPolicy::kAdaptive;
  int64_t most = 5;
  int64_t step_tokens = 64;  // the largest step whose cost is remembered
};

class DraftLength {
 public:
  explicit DraftLength(const DraftLengthOptions& options)
      : options_(options), step_times_(options.step_tokens) {}

  // Guesses for each of the sequences with these acceptances, in a step that has `step_tokens`
  // tokens without them; at most `room`. 0: none this time.
  int64_t Choose(std::span<const Acceptance* const> sequences, int64_t step_tokens, int64_t room);

  // Of `length` guesses chosen for several sequences, those that pay for one with this acceptance:
  // each must be worth, in time of a plain token, what it adds to the step.
  int64_t Worthwhile(const Acceptance& acceptance, int64_t step_tokens, int64_t sequences,
                     int64_t length) const;

  // A step over `tokens` tokens, each with an output row, took `seconds`.
  void ObserveStep(int64_t tokens, double seconds) { step_times_.Observe(tokens, 0, seconds); }
  // `guesses` guesses took `seconds` to make.
  void ObserveGuesses(int64_t guesses, double seconds);

  // Tokens a second that Choose expects of a round; 0 where nothing is known.
  double ExpectedRate(std::span<const Acceptance* const> sequences, int64_t step_tokens,
                      int64_t guesses) const;
  double guess_seconds() const { return guess_s_; }
  double StepSeconds(int64_t tokens) const { return step_times_.DecodeSeconds(tokens); }

  static constexpr int64_t kProbeEvery = 32;

 private:
  int64_t Best(std::span<const Acceptance* const> sequences, int64_t step_tokens,
               int64_t most) const;

  DraftLengthOptions options_;
  StepTimeModel step_times_;
  double guess_s_ = 0.0;  // for one guess; 0: not known
  int64_t rounds_ = 0;
  int64_t next_probe_ = 0;
};

}  // namespace tenon

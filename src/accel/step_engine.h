// StepEngine: the next tokens of a list of sequences, one step at a time. The unit that
// acceleration modules wrap: the plain engine (plain_engine.h) is the last link of a chain
// (module_chain.h), and every module's engine calls the next one.
//
// A sequence has tokens that are known (its prompt and what was decided since) and, in the target
// model's KV, tokens that are computed. Advance computes some of the known ones and, where none is
// left, decides tokens: one, or more where a module can, or none where it needs another step.
//
// What holds for every link:
//  - Tokens are decided through the request's own Sampler: Sample, then Accept, in order. Bias,
//    penalties, seeds and logprobs are therefore right whichever module is at work.
//  - After Advance, `sequence` holds a prefix of known and decided tokens and lacks at least the
//    last one. It may lag further behind (a module that did not ask the target model): the next
//    step that does computes what is missing. So a module can leave at any step's end.
//  - The caller has reserved the slots for `compute` tokens. An engine that wants more calls
//    Reserve itself, takes kWait for a no, and never takes blocks from another sequence.
//  - An error of Advance is a failed step: every request of it ends. What concerns one sequence is
//    its `failure`.
//
// Ownership: tasks point to what their caller owns; an engine keeps no pointer past the call, only
// state under the task's key, until Forget. Cancellation: between steps; the caller stops giving
// the sequence and calls Forget. Memory: reserved when the module is made; Advance allocates no
// more than a few tokens for each sequence. Threading: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/kv/sequence.h"
#include "engine/sample/sampler.h"

namespace tenon {

// One answer to one request, for as long as the process lives.
using SequenceKey = uint64_t;

// Output rows that the caller wants to see of the tokens computed in a step, beside the decisions.
enum class RowKind : uint8_t { kNone, kLogits, kHidden };

// Tokens that may follow the known ones, for the target model to verify in the same step.
struct Guesses {
  std::vector<int32_t> tokens;
  // [tokens]: the distribution that each was drawn from, for rejection sampling. Empty: a guess is
  // right when the request's sampler draws that very token.
  std::vector<Candidates> drawn_from;
};

// A set of modules, by their place in the chain.
using ModuleMask = uint32_t;
inline constexpr ModuleMask kAllModules = ~ModuleMask{0};
inline constexpr ModuleMask kNoModules = 0;

struct SequenceTask {
  // Set by the caller:
  SequenceKey key = 0;
  ModuleMask modules = kAllModules;  // that may work on it
  Sequence* sequence = nullptr;      // in the target model's pool
  std::span<const int32_t> tokens;   // known: the prompt, then the answer so far
  int64_t prompt_tokens = 0;         // of them
  // How many of the tokens that Pending named this step is to compute, >= 1.
  int64_t compute = 1;
  // Who draws when all known tokens are computed: [0] for this sequence, the others for sequences
  // that fork from it after the step, one token each. Empty: nothing is drawn. With more than one,
  // exactly one token is decided.
  std::span<Sampler* const> samplers;
  int64_t most = 1;  // tokens that may be decided, >= 1
  RowKind rows = RowKind::kNone;
  // Called with [compute, vocab or hidden size] during Advance, for an encoder with [1, hidden
  // size]; nothing in `rows` outlives it.
  std::function<void(std::span<const float> rows)> on_rows;

  // Set by a link for the next ones. The plain engine leaves out those for which there are no
  // slots, tokens or output rows:
  Guesses guesses;

  // Results, of the last Advance:
  std::vector<SampledToken> decided;
  std::vector<SampledToken> forks;  // [samplers - 1], when a token was decided
  int64_t computed = 0;             // tokens that went through the target model, guesses included
  int64_t accepted = 0;             // of the guesses, those that became decisions
  std::optional<Error> failure;

  bool Decides() const { return compute == known() - sequence->length() && !samplers.empty(); }
  int64_t known() const { return static_cast<int64_t>(tokens.size()); }
  void ClearResults() {
    decided.clear();
    forks.clear();
    computed = 0;
    accepted = 0;
    failure.reset();
  }
};

// What a sequence waits for.
struct PendingWork {
  int64_t tokens = 1;        // known and to be computed before the next decision, >= 1
  int64_t target_slots = 1;  // of them, those that need new slots in the target model's KV
};

struct StepCapacity {
  int64_t tokens = 0;       // in one step
  int64_t output_rows = 0;  // in one step
};

class StepEngine {
 public:
  virtual ~StepEngine() = default;

  // One step. REQUIRES: keys are distinct; the sum of `compute` is within capacity().tokens and the
  // wanted rows (one for each task that decides, all where rows are asked for) within output_rows.
  virtual Status Advance(std::span<SequenceTask> tasks) = 0;

  // May narrow the task's modules. REQUIRES: all that the caller sets but `compute` is set.
  virtual PendingWork Pending(SequenceTask& task) = 0;

  // The sequence is over, or its request was preempted for good: drop what is kept for it.
  virtual void Forget(SequenceKey key) = 0;

  virtual StepCapacity capacity() const = 0;

  // There is nothing to do: a moment for preparations, some milliseconds at most. Returns when it
  // wants the next such moment if there is no work before.
  virtual std::chrono::steady_clock::time_point Idle() {
    return std::chrono::steady_clock::time_point::max();
  }

  // The bit of the module of this name in SequenceTask::modules; kNoModules where there is none.
  virtual ModuleMask MaskOf(std::string_view name) const {
    (void)name;
    return kNoModules;
  }
};

}  // namespace tenon

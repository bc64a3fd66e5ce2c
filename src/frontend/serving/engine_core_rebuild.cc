// Preemption by checkpoint: hidden states are kept as steps compute them, and the KV of a sequence
// that had to give its blocks away is rebuilt from them.
#include <algorithm>

#include "engine/sched/rebuild_choice.h"
#include "frontend/serving/engine_core.h"

namespace tenon {

// The states of all that this step computes are kept.
void EngineCore::WatchStates() {
  if (checkpoints_ == nullptr)
    return;
  checkpoints_->Forget();
  for (const Part& part : parts_) {
    if (!part.choice->request->is_embedding())
      checkpoints_->Watch(part.choice->sequence, part.choice->states);
  }
}

// Guesses that did not become part of the sequence left states behind.
void EngineCore::TrimStates() {
  if (checkpoints_ == nullptr)
    return;
  for (const Part& part : parts_) {
    if (part.choice->states.end() > part.choice->sequence.length())
      part.choice->states.Truncate(part.choice->sequence.length());
  }
}

// Whether the states take less time than computing the tokens again, as predicted.
bool EngineCore::KeepsStates(const Choice& choice) const {
  const int64_t kept =
      std::min(choice.states.end(), choice.sequence.length()) - choice.states.base();
  if (checkpoints_ == nullptr || kept <= 0 || choice.request->NeedsScores())
    return false;
  if (options_.preemption == Preemption::kCheckpoint)
    return true;
  // What comes before the log's first position has to be computed either way.
  return PrefersRebuild({step_times_.ChunkTokenSeconds(), rebuild_token_s_, checkpoints_->share()});
}

// After entry: the prefix cache may still have a part, from which the log goes on; where it has
// less than the log lacks, everything is computed again.
void EngineCore::BeginRebuild(Choice& choice) {
  const int64_t length = choice.sequence.length();
  const bool is_covered = choice.entry == Entry::kAgain && length >= choice.states.base() &&
                          length < choice.states.end();
  choice.rebuild_to = is_covered ? choice.states.end() : 0;
  if (!is_covered)
    choice.states.Clear();
}

// A piece of one sequence's KV: as many tokens as take the time that prefill may take beside the
// decodes of this round.
void EngineCore::RebuildSome() {
  const auto found = std::ranges::find_if(
      running_, [](const ChoicePtr& choice) { return choice->rebuild_to > 0; });
  if (found == running_.end())
    return;
  Choice& choice = **found;
  const auto decodes = std::ranges::count_if(running_, [](const ChoicePtr& other) {
    return other->rebuild_to == 0 && other->pending() == 1;
  });
  int64_t most = options_.token_budget;
  if (decodes > 0)
    most = std::min(most, step_times_.ChunkBeside(decodes));
  const int64_t first = choice.sequence.length();
  const int64_t count = std::min(most, choice.rebuild_to - first);
  const auto tokens =
      std::span(choice.tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  const auto start = Clock::now();
  const Status status = checkpoints_->Rebuild(choice.sequence, tokens, choice.states);
  if (!status.ok()) {
    choice.request->failure = status.error();
    return;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  rebuild_token_s_ = seconds / static_cast<double>(count);
  counters_.rebuild_s += seconds;
  counters_.rebuilt_tokens += static_cast<uint64_t>(count);
  if (choice.sequence.length() >= choice.rebuild_to)
    choice.rebuild_to = 0;
}

}  // namespace tenon

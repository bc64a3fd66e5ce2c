#include "accel/speculation/speculation_engine.h"

#include <algorithm>

#include "base/check.h"

namespace tenon {
namespace {

// Tokens and output rows of the step without guesses.
StepCapacity OwnLoad(std::span<const SequenceTask> tasks) {
  StepCapacity load;
  for (const SequenceTask& task : tasks) {
    load.tokens += task.compute;
    load.output_rows += task.rows != RowKind::kNone ? task.compute : (task.Decides() ? 1 : 0);
  }
  return load;
}

}  // namespace

void SpeculationEngine::Attach(StepEngine& next, ModuleMask bit) {
  next_ = &next;
  bit_ = bit;
}

void SpeculationEngine::Forget(SequenceKey key) {
  acceptances_.erase(key);
  source_.Forget(key);
}

void SpeculationEngine::ForgetAll() {
  acceptances_.clear();
  source_.ForgetAll();
}

Acceptance& SpeculationEngine::AcceptanceOf(SequenceKey key) {
  return acceptances_.try_emplace(key, prior_).first->second;
}

// Sequences that decide in this step and have no guesses from a module further out.
void SpeculationEngine::CollectRequests(std::span<SequenceTask> tasks) {
  requests_.clear();
  for (SequenceTask& task : tasks) {
    const bool can_have = (task.modules & bit_) != 0 && task.Decides() &&
                          task.samplers.size() == 1 && task.rows == RowKind::kNone &&
                          task.most > 1 && task.guesses.tokens.empty();
    if (can_have)
      requests_.push_back({&task, task.most - 1});
  }
}

int64_t SpeculationEngine::ChooseLength(std::span<SequenceTask> tasks) {
  const StepCapacity load = OwnLoad(tasks);
  const StepCapacity all = next_->capacity();
  const int64_t room = std::min(all.tokens - load.tokens, all.output_rows - load.output_rows);
  std::vector<const Acceptance*> acceptances;
  for (const GuessRequest& request : requests_)
    acceptances.push_back(&AcceptanceOf(request.task->key));
  const auto count = static_cast<int64_t>(requests_.size());
  return length_.Choose(acceptances, load.tokens, count > 0 ? room / count : 0);
}

Status SpeculationEngine::Propose(std::span<SequenceTask> tasks) {
  CollectRequests(tasks);
  proposed_.assign(requests_.size(), 0);
  if (requests_.empty())
    return {};
  const int64_t length = ChooseLength(tasks);
  if (length <= 0) {
    stats_.paused += requests_.size();
    return {};
  }
  const auto count = static_cast<int64_t>(requests_.size());
  const int64_t own_tokens = OwnLoad(tasks).tokens;
  for (GuessRequest& request : requests_) {
    const Acceptance& acceptance = AcceptanceOf(request.task->key);
    request.most =
        std::min(request.most, length_.Worthwhile(acceptance, own_tokens, count, length));
  }
  stats_.paused += static_cast<uint64_t>(
      std::erase_if(requests_, [](const GuessRequest& request) { return request.most <= 0; }));
  const auto start = Clock::now();
  TENON_RETURN_IF_ERROR(source_.Propose(requests_));
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  int64_t guesses = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    proposed_[i] = static_cast<int64_t>(requests_[i].task->guesses.tokens.size());
    guesses += proposed_[i];
  }
  length_.ObserveGuesses(guesses, seconds);
  stats_.seconds += seconds;
  return {};
}

Status SpeculationEngine::Advance(std::span<SequenceTask> tasks) {
  TENON_CHECK(next_ != nullptr);
  TENON_RETURN_IF_ERROR(Propose(tasks));
  const auto start = Clock::now();
  TENON_RETURN_IF_ERROR(next_->Advance(tasks));
  ObserveStep(tasks, std::chrono::duration<double>(Clock::now() - start).count());
  for (size_t i = 0; i < requests_.size(); ++i) {
    const SequenceTask& task = *requests_[i].task;
    // Guesses that the plain engine had no room for were not tried.
    const int64_t tried = std::min(proposed_[i], task.computed - task.compute);
    if (tried <= 0)
      continue;
    stats_.proposed += static_cast<uint64_t>(tried);
    stats_.accepted += static_cast<uint64_t>(task.accepted);
    AcceptanceOf(task.key).Observe(tried, task.accepted);
    source_.Observe(task, tried);
  }
  return {};
}

// Only steps that are all decisions say what verifying costs.
void SpeculationEngine::ObserveStep(std::span<const SequenceTask> tasks, double seconds) {
  int64_t tokens = 0;
  for (const SequenceTask& task : tasks) {
    if (task.compute > 1 || task.rows != RowKind::kNone)
      return;
    tokens += task.computed;
  }
  if (tokens > 0)
    length_.ObserveStep(tokens, seconds);
}

}  // namespace tenon

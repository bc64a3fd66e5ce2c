// Who runs: entry, prefix reuse, preemption, deadlines.
#include <algorithm>

#include "base/check.h"
#include "frontend/serving/engine_core.h"

namespace tenon {
namespace {

// Tokens, in whole blocks, that two prompts have in common at their beginning; the last token of
// `prompt` not counted, since one must be left to compute.
int64_t SharedTokens(std::span<const int32_t> prompt, std::span<const int32_t> other) {
  const size_t most = std::min(prompt.size() - 1, other.size());
  const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(most);
  const auto shared = std::mismatch(prompt.begin(), end, other.begin()).first - prompt.begin();
  return shared / kKvBlockTokens * kKvBlockTokens;
}

}  // namespace

void EngineCore::EndPassedDeadlines(SchedTime now) {
  for (const auto& [id, request] : requests_) {
    if (now >= request->spec.deadline && !request->failure.has_value())
      request->failure = MakeError(ErrorCode::kCancelled, "the request's deadline has passed");
  }
  RemoveOver();
}

// A request whose choices have not begun yet has a place for each of them.
int64_t EngineCore::SlotsInUse() const {
  int64_t slots = 0;
  for (const ChoicePtr& choice : running_)
    slots += 1 + static_cast<int64_t>(choice->index == 0 ? choice->request->voices.size() : 0);
  return slots;
}

SchedTime EngineCore::AdmitWaiting(SchedTime now) {
  if (waiting_.empty())
    return SchedTime::max();
  ArrivalState state{SlotsInUse(), 0, SchedTime::max(), SchedTime::min()};
  std::vector<WaitingRequest> queue;
  for (const ChoicePtr& choice : waiting_) {
    const ActiveRequest& request = *choice->request;
    state.waiting += 1 + static_cast<int64_t>(request.voices.size());
    state.oldest = std::min(state.oldest, request.submitted);
    state.newest = std::max(state.newest, request.submitted);
    queue.push_back({request.id, request.spec.priority, request.spec.tenant, choice->entry});
  }
  const int64_t enough =
      options_.batch_threshold > 0 ? options_.batch_threshold : options_.max_batch;
  const BatchWindow window{options_.max_batch, enough, options_.batch_window};
  const SchedTime entry = EntryTime(options_.policy, window, state).value_or(SchedTime::max());
  if (entry > now)
    return entry;
  while (!queue.empty()) {
    const size_t next = *NextToEnter(queue, turns_);
    const auto at = static_cast<std::ptrdiff_t>(next);
    if (!Enter(*waiting_[next]))
      break;
    if (waiting_[next]->entry == Entry::kFirst)
      turns_.Take(queue[next].tenant);
    running_.push_back(std::move(waiting_[next]));
    waiting_.erase(waiting_.begin() + at);
    queue.erase(queue.begin() + at);
  }
  if (!running_.empty())
    return SchedTime::max();
  // Every prompt fits a pool that nobody else uses; somebody does, and may do so for ever.
  waiting_.front()->request->failure =
      MakeError(ErrorCode::kResourceExhausted, "KV blocks are held outside the engine", "KV cache");
  RemoveOver();
  return SchedTime::min();
}

int64_t EngineCore::MatchPrefix(Choice& choice) {
  // Rows of the prompt that are wanted must be computed.
  return choice.request->NeedsScores() ? 0 : choice.sequence.MatchPrefix(choice.tokens);
}

bool EngineCore::Enter(Choice& choice) {
  ActiveRequest& request = *choice.request;
  const int64_t slots = 1 + static_cast<int64_t>(choice.index == 0 ? request.voices.size() : 0);
  if (SlotsInUse() + slots > options_.max_batch)
    return false;
  KvPool& pool = runner_.kv();
  if (blocked_ == &choice && pool.available() <= blocked_available_)
    return false;
  const int64_t matched = MatchPrefix(choice);
  const auto total = static_cast<int64_t>(choice.tokens.size());
  const int64_t needed = BlocksFor(total) - BlocksFor(matched);
  if (pool.available() < needed + static_cast<int64_t>(running_.size())) {
    choice.sequence.Truncate(0);
    blocked_ = &choice;
    blocked_available_ = pool.available();
    return false;
  }
  blocked_ = nullptr;
  TENON_CHECK(ReserveOne(choice, choice.pending()));
  if (choice.entry == Entry::kFirst)
    request.cached_tokens = matched;
  BeginRebuild(choice);
  if (choice.rebuild_to == 0)
    FindLeader(choice);
  return true;
}

// The running request that is computing most of what this prompt could reuse.
void EngineCore::FindLeader(Choice& choice) {
  const ActiveRequest& request = *choice.request;
  if (request.spec.prefix_cache == PrefixCache::kOff || request.NeedsScores())
    return;
  choice.leader_tokens = choice.sequence.length();
  for (const ChoicePtr& other : running_) {
    const ActiveRequest& leader = *other->request;
    if (!other->IsInPrompt() || leader.spec.prefix_cache == PrefixCache::kOff ||
        leader.spec.scope != request.spec.scope)
      continue;
    const int64_t shared = SharedTokens(choice.tokens, leader.prompt);
    if (shared <= std::max(choice.leader_tokens, other->sequence.length()))
      continue;
    choice.leader = leader.id;
    choice.leader_tokens = shared;
  }
}

bool EngineCore::IsHeld(const Choice& choice) const {
  if (choice.leader == 0)
    return false;
  return std::any_of(running_.begin(), running_.end(), [&](const ChoicePtr& other) {
    // A leader whose prompt another model computes leaves nothing to take over.
    return other->request->id == choice.leader && other->IsInPrompt() &&
           other->work.target_slots > 0 && other->sequence.length() < choice.leader_tokens;
  });
}

// The leader is done, or gone: looks again for what is there. What this gives back is at least what
// it takes, so the reservation comes out the same or smaller.
void EngineCore::TakeOverPrefix(Choice& choice) {
  choice.leader = 0;
  choice.sequence.Truncate(0);
  const int64_t matched = MatchPrefix(choice);
  if (choice.entry == Entry::kFirst)
    choice.request->cached_tokens = matched;
}

void EngineCore::Preempt(size_t running_index) {
  ChoicePtr choice = std::move(running_[running_index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(running_index));
  if (KeepsStates(*choice)) {
    choice->states.Truncate(choice->sequence.length());
    ++counters_.checkpointed_preemptions;
  } else {
    choice->states.Clear();
  }
  choice->sequence.Truncate(0);
  choice->leader = 0;
  choice->rebuild_to = 0;
  if (choice->request->NeedsScores()) {  // its rows will be computed again
    choice->request->scored = 0;
    choice->request->prompt_logprobs.clear();
    choice->request->hidden_sum.clear();
    choice->request->hidden_rows = 0;
  }
  choice->entry = Entry::kAgain;
  waiting_.push_back(std::move(choice));
  blocked_ = nullptr;
  ++counters_.preemptions;
}

// Ends what has failed, then drops requests that are over, with their choices.
void EngineCore::RemoveOver() {
  for (const auto& [id, request] : requests_) {
    if (request->failure.has_value() && !request->is_over)
      TellError(*request, *request->failure);
  }
  const auto is_over = [](const ChoicePtr& choice) {
    return choice->is_done || choice->request->is_over;
  };
  for (const auto* list : {&waiting_, &running_}) {
    for (const ChoicePtr& choice : *list) {
      if (is_over(choice))
        steps_.Forget(choice->key);
    }
  }
  const size_t before = waiting_.size() + running_.size();
  std::erase_if(waiting_, is_over);
  std::erase_if(running_, is_over);
  if (waiting_.size() + running_.size() != before)
    blocked_ = nullptr;
  std::erase_if(requests_, [](const auto& entry) { return entry.second->is_over; });
}

}  // namespace tenon

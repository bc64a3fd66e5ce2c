#include "accel/draft_model/draft_model_source.h"

#include <algorithm>

#include "accel/warm_model.h"

namespace tenon {

DraftModelSource::State& DraftModelSource::StateOf(const SequenceTask& task) {
  return states_.try_emplace(task.key, model_->runner().kv(), task, acceptance_).first->second;
}

// The tokens that the draft model has not seen; as many of them as the step still has room for.
// False when nothing is left of the budget.
bool DraftModelSource::PlanCatchUp(Draft& draft, int64_t& budget) {
  Sequence& kv = draft.state->kv;
  const auto known = draft.task->tokens;
  const auto [seen, same] =
      std::mismatch(kv.tokens().begin(), kv.tokens().end(), known.begin(), known.end());
  kv.Truncate(std::min<int64_t>(seen - kv.tokens().begin(), draft.task->known() - 1));
  if (kv.length() == 0)
    kv.MatchPrefix(known);
  const int64_t missing = draft.task->known() - kv.length();
  const int64_t count = std::min(missing, budget);
  budget -= count;
  const auto unseen = known.subspan(static_cast<size_t>(kv.length()), static_cast<size_t>(count));
  draft.next.assign(unseen.begin(), unseen.end());
  draft.draws = count == missing;
  return count > 0;
}

bool DraftModelSource::EvictOneBut(SequenceKey key) {
  auto oldest = states_.end();
  for (auto it = states_.begin(); it != states_.end(); ++it) {
    if (it->first == key || it->second.last_used == round_ || it->second.kv.length() == 0)
      continue;
    if (oldest == states_.end() || it->second.last_used < oldest->second.last_used)
      oldest = it;
  }
  if (oldest == states_.end())
    return false;
  states_.erase(oldest);
  return true;
}

bool DraftModelSource::Reserve(Draft& draft) {
  const auto count = static_cast<int64_t>(draft.next.size());
  for (;;) {
    const auto reserved = draft.state->kv.Reserve(count);
    if (!reserved.ok())
      return false;  // longer than the draft model's whole pool
    if (*reserved == Reservation::kReady)
      return true;
    if (!EvictOneBut(draft.task->key))
      return false;
  }
}

// One step of the draft model over each draft's next tokens. What was drawn is the next token then.
Status DraftModelSource::Step(std::vector<Draft>& drafts) {
  std::erase_if(drafts, [&](Draft& draft) { return !Reserve(draft); });
  builder_.Clear();
  for (const Draft& draft : drafts) {
    const Sequence& kv = draft.state->kv;
    builder_.AddTokens(builder_.AddSequence(kv.block_table()), draft.next, kv.length(),
                       draft.draws ? BatchBuilder::Outputs::kLast : BatchBuilder::Outputs::kNone);
  }
  if (drafts.empty())
    return {};
  TENON_ASSIGN_OR_RETURN(const auto logits, model_->runner().Step(builder_.batch()));
  const auto vocab = static_cast<size_t>(model_->runner().vocab_size());
  size_t row = 0;
  for (Draft& draft : drafts) {
    draft.state->kv.Append(draft.next);
    if (!draft.draws)
      continue;
    TENON_RETURN_IF_ERROR(draft.state->sampler.Draw(
        *draft.task, logits.subspan(row++ * vocab, static_cast<size_t>(target_vocab_))));
    draft.next.assign(1, draft.task->guesses.tokens.back());
  }
  return {};
}

Status DraftModelSource::Propose(std::span<const GuessRequest> requests) {
  ++round_;
  const PlanOptions& plan = model_->runner().options().plan;
  int64_t budget = plan.max_tokens;
  std::vector<Draft> drafts;
  for (const GuessRequest& request : requests) {
    if (static_cast<int64_t>(drafts.size()) == plan.max_outputs)
      break;
    Draft draft{request.task, &StateOf(*request.task), request.most, {}, false};
    draft.state->last_used = round_;
    draft.state->sampler.Begin(*request.task);
    if (PlanCatchUp(draft, budget))
      drafts.push_back(std::move(draft));
  }
  TENON_RETURN_IF_ERROR(Step(drafts));
  // The known tokens stay; guesses after them are dropped again when the next round compares.
  for (const Draft& draft : drafts)
    draft.state->kv.Commit();
  const auto is_done = [](const Draft& draft) {
    return !draft.draws || static_cast<int64_t>(draft.task->guesses.tokens.size()) >= draft.most;
  };
  for (std::erase_if(drafts, is_done); !drafts.empty(); std::erase_if(drafts, is_done))
    TENON_RETURN_IF_ERROR(Step(drafts));
  return {};
}

Status DraftModelSource::Warm() {
  return WarmModel(model_->runner());
}

}  // namespace tenon

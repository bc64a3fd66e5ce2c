#include "accel/self_spec/self_spec_source.h"

#include <algorithm>

namespace tenon {

// One step of the draft over each sequence's next tokens; what is drawn from it is next then.
Status SelfSpecSource::Step(std::vector<Draft>& drafts) {
  builder_.Clear();
  for (const Draft& draft : drafts) {
    builder_.AddTokens(builder_.AddSequence(draft.task->sequence->block_table()), draft.next,
                       draft.position, BatchBuilder::Outputs::kLast);
  }
  Batch batch = builder_.batch();
  batch.kv_reader = level_.level() > 0 ? KvReader::kDraft : KvReader::kFull;
  TENON_ASSIGN_OR_RETURN(const auto logits, runner().Step(batch));
  const auto vocab = static_cast<size_t>(runner().vocab_size());
  for (size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    TENON_RETURN_IF_ERROR(draft.sampler->Draw(*draft.task, logits.subspan(i * vocab, vocab)));
    draft.position += static_cast<int64_t>(draft.next.size());
    draft.next.assign(1, draft.task->guesses.tokens.back());
  }
  return {};
}

Status SelfSpecSource::Propose(std::span<const GuessRequest> requests) {
  std::vector<Draft> drafts;
  for (const GuessRequest& request : requests) {
    SequenceTask& task = *request.task;
    if (task.compute > kMaxPending)
      continue;
    const auto reserved = task.sequence->Reserve(task.compute + request.most);
    if (!reserved.ok() || *reserved == Reservation::kWait)
      continue;
    Draft draft{&task,
                &samplers_.try_emplace(task.key, acceptance_).first->second,
                request.most,
                {},
                task.sequence->length()};
    draft.sampler->Begin(task);
    const auto pending = task.tokens.last(static_cast<size_t>(task.compute));
    draft.next.assign(pending.begin(), pending.end());
    drafts.push_back(std::move(draft));
  }
  const auto is_done = [](const Draft& draft) {
    return static_cast<int64_t>(draft.task->guesses.tokens.size()) >= draft.most;
  };
  for (; !drafts.empty(); std::erase_if(drafts, is_done))
    TENON_RETURN_IF_ERROR(Step(drafts));
  return {};
}

}  // namespace tenon

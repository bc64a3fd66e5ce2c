#include "accel/plain_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

// Output rows that the task wants for its caller and its first draw.
int64_t OwnRows(const SequenceTask& task, const ModelRunner& runner) {
  if (task.rows != RowKind::kNone)
    return runner.is_encoder() ? 1 : task.compute;
  return task.Decides() ? 1 : 0;
}

// Guesses that may be verified at all: only behind the last known token, with one sampler, and
// leaving a decision for the token after them.
int64_t UsableGuesses(const SequenceTask& task, int64_t vocab_size) {
  if (!task.Decides() || task.samplers.size() != 1 || task.rows != RowKind::kNone)
    return 0;
  const auto& tokens = task.guesses.tokens;
  const auto bad = std::find_if(tokens.begin(), tokens.end(),
                                [&](int32_t token) { return token < 0 || token >= vocab_size; });
  return std::min(static_cast<int64_t>(bad - tokens.begin()), task.most - 1);
}

}  // namespace

StepCapacity PlainEngine::capacity() const {
  const PlanOptions& plan = runner_.options().plan;
  return {plan.max_tokens, plan.max_outputs};
}

PendingWork PlainEngine::Pending(SequenceTask& task) {
  const int64_t pending = task.known() - task.sequence->length();
  return {pending, pending};
}

// Cuts the guesses to what the step, the limits of the requests and the KV pool have room for.
void PlainEngine::FitGuesses(std::span<SequenceTask> tasks) {
  StepCapacity left = capacity();
  for (const SequenceTask& task : tasks) {
    left.tokens -= task.compute;
    left.output_rows -= OwnRows(task, runner_);
  }
  for (SequenceTask& task : tasks) {
    if (task.guesses.tokens.empty())
      continue;
    int64_t count = UsableGuesses(task, runner_.vocab_size());
    count = std::max<int64_t>(0, std::min({count, left.tokens, left.output_rows}));
    if (count > 0) {
      const auto reserved = task.sequence->Reserve(task.compute + count);
      if (!reserved.ok() || *reserved == Reservation::kWait)
        count = 0;
    }
    task.guesses.tokens.resize(static_cast<size_t>(count));
    if (!task.guesses.drawn_from.empty())
      task.guesses.drawn_from.resize(static_cast<size_t>(count));
    left.tokens -= count;
    left.output_rows -= count;
  }
}

void PlainEngine::AddPart(SequenceTask& task) {
  Part part{&task, rows_, 0, static_cast<int64_t>(task.guesses.tokens.size()), task.Decides()};
  part.rows = OwnRows(task, runner_) + part.guesses;
  const int64_t length = task.sequence->length();
  const auto known =
      task.tokens.subspan(static_cast<size_t>(length), static_cast<size_t>(task.compute));
  const int32_t sequence = builder_.AddSequence(task.sequence->block_table());
  const bool wants_all = task.rows != RowKind::kNone && !runner_.is_encoder();
  const auto outputs = wants_all                     ? BatchBuilder::Outputs::kAll
                       : OwnRows(task, runner_) == 1 ? BatchBuilder::Outputs::kLast
                                                     : BatchBuilder::Outputs::kNone;
  builder_.AddTokens(sequence, known, length, outputs);
  builder_.AddTokens(sequence, task.guesses.tokens, length + task.compute,
                     BatchBuilder::Outputs::kAll);
  task.computed = task.compute + part.guesses;
  rows_ += part.rows;
  parts_.push_back(part);
}

Status PlainEngine::Advance(std::span<SequenceTask> tasks) {
  builder_.Clear();
  parts_.clear();
  draws_.clear();
  rows_ = 0;
  for (SequenceTask& task : tasks)
    task.ClearResults();
  FitGuesses(tasks);
  for (SequenceTask& task : tasks)
    AddPart(task);
  if (parts_.empty())
    return {};
  const bool hidden_only = std::ranges::all_of(parts_, [](const Part& part) {
    return part.task->rows == RowKind::kHidden && !part.decides;
  });
  TENON_ASSIGN_OR_RETURN(const auto logits,
                         runner_.Step(builder_.batch(), hidden_only ? StepOutputs::kHiddenOnly
                                                                    : StepOutputs::kLogits));
  for (const Part& part : parts_) {
    SequenceTask& task = *part.task;
    const auto from = static_cast<size_t>(task.sequence->length());
    task.sequence->Append(task.tokens.subspan(from, static_cast<size_t>(task.compute)));
    TakeRows(part, logits);
    for (size_t i = 0; part.decides && i < task.samplers.size(); ++i)
      draws_.push_back({&part, i});
  }
  RunDraws(logits);
  for (const Part& part : parts_)
    KeepAccepted(part);
  return {};
}

void PlainEngine::TakeRows(const Part& part, std::span<const float> logits) {
  const SequenceTask& task = *part.task;
  if (task.rows == RowKind::kNone || !task.on_rows)
    return;
  const bool is_hidden = task.rows == RowKind::kHidden;
  const auto width = static_cast<size_t>(is_hidden ? runner_.hidden_size() : runner_.vocab_size());
  const std::span<const float> all = is_hidden ? runner_.hidden() : logits;
  task.on_rows(all.subspan(static_cast<size_t>(part.first_row) * width,
                           static_cast<size_t>(OwnRows(task, runner_)) * width));
}

std::span<const float> PlainEngine::Row(std::span<const float> logits, int64_t row) const {
  const auto vocab = static_cast<size_t>(runner_.vocab_size());
  return logits.subspan(static_cast<size_t>(row) * vocab, vocab);
}

// Sequences are independent of each other, so their tokens are chosen on all threads. A task's
// decisions and each of its forks have places of their own to write to.
void PlainEngine::RunDraws(std::span<const float> logits) {
  for (const Part& part : parts_) {
    if (part.decides)
      part.task->forks.resize(part.task->samplers.size() - 1);
  }
  std::vector<std::optional<Error>> errors(draws_.size());
  const auto count = static_cast<int64_t>(draws_.size());
  pool_.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Draw& draw = draws_[static_cast<size_t>(i)];
      Status status = draw.sampler == 0 ? Decide(*draw.part, logits)
                                        : DrawFork(*draw.part, draw.sampler, logits);
      if (!status.ok())
        errors[static_cast<size_t>(i)] = std::move(status).error();
    }
  });
  for (size_t i = 0; i < draws_.size(); ++i) {
    if (errors[i].has_value())
      draws_[i].part->task->failure = std::move(errors[i]);
  }
}

// The rows of a deciding part end with the one behind its last known token, then one for each
// guess.
Status PlainEngine::Decide(const Part& part, std::span<const float> logits) {
  SequenceTask& task = *part.task;
  Sampler& sampler = *task.samplers.front();
  const int64_t first = part.first_row + part.rows - 1 - part.guesses;
  for (int64_t i = 0; i <= part.guesses; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool by_rejection = at < task.guesses.drawn_from.size();
    TENON_ASSIGN_OR_RETURN(
        SampledToken sampled,
        by_rejection ? sampler.SampleAgainst(Row(logits, first + i), task.guesses.tokens[at],
                                             task.guesses.drawn_from[at])
                     : sampler.Sample(Row(logits, first + i)));
    sampler.Accept(sampled.token);
    const int32_t token = sampled.token;
    task.decided.push_back(std::move(sampled));
    if (i == part.guesses || token != task.guesses.tokens[at])
      break;
    ++task.accepted;
  }
  return {};
}

Status PlainEngine::DrawFork(const Part& part, size_t sampler, std::span<const float> logits) {
  SequenceTask& task = *part.task;
  Sampler& fork = *task.samplers[sampler];
  TENON_ASSIGN_OR_RETURN(SampledToken sampled,
                         fork.Sample(Row(logits, part.first_row + part.rows - 1)));
  fork.Accept(sampled.token);
  task.forks[sampler - 1] = std::move(sampled);
  return {};
}

// The KV of accepted guesses is right as it stands; the slots of the others are given back.
void PlainEngine::KeepAccepted(const Part& part) {
  SequenceTask& task = *part.task;
  task.sequence->Append(std::span(task.guesses.tokens).first(static_cast<size_t>(task.accepted)));
  task.sequence->Commit();
  if (task.accepted < part.guesses)
    task.sequence->Truncate(task.sequence->length());
  task.guesses = {};
}

}  // namespace tenon

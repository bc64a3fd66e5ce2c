#include "accel/sequence_integrity.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon {
namespace {

Error Broken(std::string what) {
  return MakeError(ErrorCode::kInternal, std::move(what), "step");
}

Status CheckCounts(const SequenceTask& task) {
  const auto decided = static_cast<int64_t>(task.decided.size());
  if (decided > task.most)
    return Broken(fmt::format("{} tokens decided, at most {} were wanted", decided, task.most));
  if (task.samplers.empty() && decided > 0)
    return Broken(fmt::format("{} tokens decided for a sequence that draws none", decided));
  if (decided == 0)
    return {};
  if (task.samplers.size() > 1 && decided > 1)
    return Broken(fmt::format("{} tokens decided before the sequence's forks began", decided));
  if (task.forks.size() + 1 != task.samplers.size())
    return Broken(fmt::format("{} forks have a token, expected {}", task.forks.size(),
                              task.samplers.size() - 1));
  return {};
}

Status CheckDecisions(const StepOutcome& outcome, int64_t vocab_size) {
  const SequenceTask& task = *outcome.task;
  if (task.samplers.empty())
    return {};
  uint64_t digest = outcome.digest_before;
  for (const SampledToken& sampled : task.decided) {
    if (sampled.token < 0 || sampled.token >= vocab_size) {
      return Broken(
          fmt::format("token {} is outside the vocabulary of {}", sampled.token, vocab_size));
    }
    digest = Sampler::ExtendDigest(digest, sampled.token);
  }
  if (digest != task.samplers.front()->digest())
    return Broken("the decided tokens are not the ones that the sampler drew");
  return {};
}

int32_t TokenAt(const SequenceTask& task, size_t position) {
  return position < task.tokens.size() ? task.tokens[position]
                                       : task.decided[position - task.tokens.size()].token;
}

Status CheckKv(const StepOutcome& outcome) {
  const SequenceTask& task = *outcome.task;
  const auto computed = task.sequence->tokens();
  const size_t all = task.tokens.size() + task.decided.size();
  const size_t most = task.decided.empty() ? all : all - 1;
  if (computed.size() > most)
    return Broken(fmt::format("KV of {} tokens, at most {} are known", computed.size(), most));
  const auto from = static_cast<size_t>(std::max<int64_t>(outcome.length_before, 0));
  for (size_t i = std::min(from, computed.size()); i < computed.size(); ++i) {
    if (computed[i] != TokenAt(task, i)) {
      return Broken(fmt::format("KV position {} holds token {}, expected {}", i, computed[i],
                                TokenAt(task, i)));
    }
  }
  return {};
}

}  // namespace

Status CheckWhole(const StepOutcome& outcome, int64_t vocab_size) {
  TENON_RETURN_IF_ERROR(CheckCounts(*outcome.task));
  TENON_RETURN_IF_ERROR(CheckDecisions(outcome, vocab_size));
  return CheckKv(outcome);
}

}  // namespace tenon

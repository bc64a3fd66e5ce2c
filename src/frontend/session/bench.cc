#include "frontend/session/bench.h"

#include <algorithm>
#include <chrono>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Made-up token ids, spread over the vocabulary: what they say does not matter to speed.
int32_t BenchToken(int64_t index, int64_t vocabulary) {
  return static_cast<int32_t>((index * 7919 + 13) % vocabulary);
}

// One run of a case: sequences with their caches, and the clock.
class BenchRun {
 public:
  BenchRun(Model& model, const BenchCase& bench_case, StepEngine* steps)
      : model_(model), case_(bench_case), steps_(steps) {}

  Result<double> TokensPerSecond() {
    TENON_RETURN_IF_ERROR(Prepare());
    const auto start = Clock::now();
    if (case_.test == BenchCase::Test::kPrefill)
      TENON_RETURN_IF_ERROR(Prefill(case_.context, case_.tokens, BatchBuilder::Outputs::kLast));
    else if (steps_ != nullptr)
      TENON_RETURN_IF_ERROR(DecodeThrough(*steps_));
    else
      TENON_RETURN_IF_ERROR(Decode());
    return static_cast<double>(case_.tokens * case_.sequences) / SecondsSince(start);
  }

 private:
  Status Prepare() {
    for (int64_t i = 0; i < case_.sequences; ++i) {
      sequences_.emplace_back(model_.runner().kv(), CacheScope{}, PrefixCache::kOff);
      TENON_RETURN_IF_ERROR(ReserveNow(sequences_.back(), case_.context + case_.tokens));
    }
    return Prefill(0, case_.context, BatchBuilder::Outputs::kNone);
  }

  // `count` tokens of each sequence, in steps as large as the plan allows.
  Status Prefill(int64_t first, int64_t count, BatchBuilder::Outputs outputs) {
    const int64_t step = model_.runner().options().plan.max_tokens;
    std::vector<int32_t> tokens;
    for (const Sequence& sequence : sequences_) {
      for (int64_t done = 0; done < count; done += step) {
        tokens.clear();
        for (int64_t i = done; i < std::min(count, done + step); ++i)
          tokens.push_back(BenchToken(first + i, model_.runner().vocab_size()));
        builder_.Clear();
        builder_.AddTokens(builder_.AddSequence(sequence.block_table()), tokens, first + done,
                           outputs);
        TENON_RETURN_IF_ERROR(Step());
      }
    }
    return {};
  }

  Status Decode() {
    for (int64_t i = 0; i < case_.tokens; ++i) {
      builder_.Clear();
      for (const Sequence& sequence : sequences_) {
        builder_.AddToken(builder_.AddSequence(sequence.block_table()),
                          BenchToken(i, model_.runner().vocab_size()), case_.context + i,
                          Logits::kYes);
      }
      TENON_RETURN_IF_ERROR(Step());
    }
    return {};
  }

  // A sequence of DecodeThrough.
  struct Answer {
    Sampler sampler;
    Sampler* drawing = nullptr;   // the sampler, as tasks want it
    std::vector<int32_t> tokens;  // the context, a first token, the answer
  };

  Status BeginAnswers() {
    const int64_t vocab = model_.runner().vocab_size();
    SamplingParams greedy;
    greedy.temperature = 0.0F;
    for (Sequence& sequence : sequences_) {
      TENON_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create(greedy, static_cast<int32_t>(vocab)));
      auto answer = std::make_unique<Answer>(Answer{std::move(sampler), nullptr, {}});
      answer->drawing = &answer->sampler;
      for (int64_t i = 0; i <= case_.context; ++i)
        answer->tokens.push_back(BenchToken(i, vocab));
      sequence.Append(std::span(answer->tokens).first(static_cast<size_t>(case_.context)));
      answers_.push_back(std::move(answer));
    }
    return {};
  }

  Result<SequenceTask> TaskOf(size_t index, StepEngine& steps) {
    Answer& answer = *answers_[index];
    SequenceTask task;
    task.key = index;
    task.sequence = &sequences_[index];
    task.tokens = answer.tokens;
    task.prompt_tokens = case_.context + 1;
    task.samplers = {&answer.drawing, 1};
    task.most = task.prompt_tokens + case_.tokens - task.known();
    task.compute = steps.Pending(task).tokens;
    TENON_RETURN_IF_ERROR(ReserveNow(sequences_[index], task.compute));
    return task;
  }

  Status DecodeThrough(StepEngine& steps) {
    TENON_RETURN_IF_ERROR(BeginAnswers());
    const auto wanted = static_cast<size_t>(case_.context + 1 + case_.tokens);
    for (std::vector<SequenceTask> tasks;; tasks.clear()) {
      for (size_t i = 0; i < answers_.size(); ++i) {
        if (answers_[i]->tokens.size() >= wanted)
          continue;
        TENON_ASSIGN_OR_RETURN(SequenceTask task, TaskOf(i, steps));
        tasks.push_back(std::move(task));
      }
      if (tasks.empty())
        break;
      TENON_RETURN_IF_ERROR(steps.Advance(tasks));
      for (const SequenceTask& task : tasks) {
        for (const SampledToken& sampled : task.decided)
          answers_[task.key]->tokens.push_back(sampled.token);
      }
    }
    for (size_t i = 0; i < answers_.size(); ++i)
      steps.Forget(i);
    return {};
  }

  Status Step() {
    auto logits = model_.runner().Step(builder_.batch());
    return logits.ok() ? Status() : Status(std::move(logits).error());
  }

  Model& model_;
  const BenchCase& case_;
  StepEngine* steps_;
  std::vector<Sequence> sequences_;
  BatchBuilder builder_;
  std::vector<std::unique_ptr<Answer>> answers_;
};

}  // namespace

std::string_view BenchTestName(BenchCase::Test test) {
  switch (test) {
    case BenchCase::Test::kPrefill:
      return "prefill";
    case BenchCase::Test::kDecode:
      return "decode";
    case BenchCase::Test::kBatch:
      return "batch";
  }
  return "";
}

int64_t BenchContextTokens(const BenchCase& bench_case) {
  const int64_t tokens = bench_case.context + bench_case.tokens;
  const int64_t blocks = (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
  return blocks * kKvBlockTokens * bench_case.sequences;
}

Result<std::vector<BenchRate>> RunBench(Model& model, const std::vector<BenchCase>& cases,
                                        int64_t repeats,
                                        const std::function<void(const BenchRate&)>& on_rate,
                                        StepEngine* steps) {
  std::vector<BenchRate> rates;
  for (const BenchCase& bench_case : cases) {
    std::vector<double> samples;
    for (int64_t i = 0; i <= repeats; ++i) {
      TENON_ASSIGN_OR_RETURN(const double rate,
                             BenchRun(model, bench_case, steps).TokensPerSecond());
      if (i > 0)  // the first one warms up
        samples.push_back(rate);
    }
    std::ranges::sort(samples);
    rates.push_back({bench_case, samples[samples.size() / 2], samples.front(), samples.back()});
    if (on_rate)
      on_rate(rates.back());
  }
  return rates;
}

}  // namespace tenon

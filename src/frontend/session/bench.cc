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
  BenchRun(Model& model, const BenchCase& bench_case) : model_(model), case_(bench_case) {}

  Result<double> TokensPerSecond() {
    TENON_RETURN_IF_ERROR(Prepare());
    const auto start = Clock::now();
    if (case_.test == BenchCase::Test::kPrefill)
      TENON_RETURN_IF_ERROR(Prefill(case_.context, case_.tokens, BatchBuilder::Outputs::kLast));
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

  Status Step() {
    auto logits = model_.runner().Step(builder_.batch());
    return logits.ok() ? Status() : Status(std::move(logits).error());
  }

  Model& model_;
  const BenchCase& case_;
  std::vector<Sequence> sequences_;
  BatchBuilder builder_;
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
                                        const std::function<void(const BenchRate&)>& on_rate) {
  std::vector<BenchRate> rates;
  for (const BenchCase& bench_case : cases) {
    std::vector<double> samples;
    for (int64_t i = 0; i <= repeats; ++i) {
      TENON_ASSIGN_OR_RETURN(const double rate, BenchRun(model, bench_case).TokensPerSecond());
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

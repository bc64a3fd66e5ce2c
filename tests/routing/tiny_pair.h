// Two tiny models with one vocabulary as small and large, and a caller of step engines.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accel/module_context.h"
#include "accel/plain_engine.h"
#include "accel/step_engine.h"
#include "arch/tiny_model.h"
#include "engine/exec/batch_builder.h"
#include "frontend/session/source_weights.h"
#include "gguf/gguf_writer.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"
#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon::testing {

inline constexpr int64_t kTinyVocab = 100;

// A loaded tiny model.
class TinyModel {
 public:
  explicit TinyModel(const std::string& name, int64_t kv_tokens = 4096) {
    const TinyCase tiny = FindTinyCase(name);
    auto source = OpenModel(folder_.Write("tiny.gguf", TinyGguf(tiny, TinyTensors(tiny))));
    EXPECT_TRUE(source.ok()) << source.error().ToString();
    source_ = std::make_unique<ModelSource>(*std::move(source));
    weights_ = std::make_unique<SourceWeights>(*source_);
    RunnerOptions options;
    options.plan.max_tokens = 64;
    options.plan.max_outputs = 64;
    options.plan.kv_type = KvType::kF32;
    options.passes.activations = ActivationMode::kFloat;
    options.kv_tokens = kv_tokens;
    auto runner = ModelRunner::Prepare(*BuildGraph(*source_), *weights_,
                                       *ResolveKernelSetFromEnvironment(), options);
    EXPECT_TRUE(runner.ok()) << runner.error().ToString();
    runner_ = *std::move(runner);
    pool_ = *ThreadPool::Create(2);
    EXPECT_TRUE(runner_->Load(*pool_, 0).ok());
  }

  ModelRunner& runner() { return *runner_; }
  ThreadPool& pool() { return *pool_; }

  // Logits behind `tokens`, from nothing.
  std::vector<float> Logits(std::span<const int32_t> tokens) {
    Sequence sequence(runner_->kv(), CacheScope{}, PrefixCache::kOff);
    EXPECT_TRUE(ReserveNow(sequence, static_cast<int64_t>(tokens.size())).ok());
    std::vector<float> result;
    for (size_t done = 0; done < tokens.size(); done += 64) {
      const auto piece = tokens.subspan(done, std::min<size_t>(64, tokens.size() - done));
      BatchBuilder builder;
      builder.AddTokens(builder.AddSequence(sequence.block_table()), piece,
                        static_cast<int64_t>(done), BatchBuilder::Outputs::kLast);
      const auto logits = *runner_->Step(builder.batch());
      result.assign(logits.begin(), logits.end());
    }
    return result;
  }

 private:
  TempFolder folder_;
  std::unique_ptr<ModelSource> source_;
  std::unique_ptr<SourceWeights> weights_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ModelRunner> runner_;
};

inline SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

// One answer in the making.
struct Answering {
  Answering(ModelRunner& target, SequenceKey name, std::vector<int32_t> prompt_tokens,
            const SamplingParams& params = Greedy())
      : key(name),
        tokens(std::move(prompt_tokens)),
        prompt(static_cast<int64_t>(tokens.size())),
        sampler(*Sampler::Create(params, kTinyVocab)),
        sequence(target.kv(), CacheScope{}, PrefixCache::kOff) {
    EXPECT_TRUE(sampler.AcceptPrompt(tokens).ok());
  }
  std::vector<int32_t> answer() const {
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
  }

  SequenceKey key;
  std::vector<int32_t> tokens;
  int64_t prompt;
  Sampler sampler;
  Sequence sequence;
};

// One step of all answers that are shorter than `length`; at most `chunk` tokens of each.
inline void StepOnce(StepEngine& engine, std::span<const std::unique_ptr<Answering>> answers,
                     size_t length, int64_t chunk = 64, ModuleMask modules = kAllModules) {
  std::vector<SequenceTask> tasks;
  std::vector<Sampler*> samplers(answers.size());
  std::vector<Answering*> owners;
  for (size_t i = 0; i < answers.size(); ++i) {
    Answering& answering = *answers[i];
    if (answering.tokens.size() - static_cast<size_t>(answering.prompt) >= length)
      continue;
    samplers[i] = &answering.sampler;
    SequenceTask task;
    task.key = answering.key;
    task.modules = modules;
    task.sequence = &answering.sequence;
    task.tokens = answering.tokens;
    task.prompt_tokens = answering.prompt;
    task.samplers = {&samplers[i], 1};
    const PendingWork work = engine.Pending(task);
    task.compute = std::min(work.tokens, chunk);
    if (work.target_slots > 0) {
      EXPECT_TRUE(ReserveNow(answering.sequence, task.compute).ok());
    }
    tasks.push_back(std::move(task));
    owners.push_back(&answering);
  }
  const Status status = engine.Advance(tasks);
  ASSERT_TRUE(status.ok()) << status.error().ToString();
  for (size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_FALSE(tasks[i].failure.has_value()) << tasks[i].failure->ToString();
    for (const SampledToken& sampled : tasks[i].decided)
      owners[i]->tokens.push_back(sampled.token);
  }
}

inline bool AllDone(std::span<const std::unique_ptr<Answering>> answers, size_t length) {
  return std::ranges::all_of(answers, [&](const auto& answering) {
    return answering->tokens.size() - static_cast<size_t>(answering->prompt) >= length;
  });
}

// The answer of `length` tokens to one prompt.
inline std::vector<int32_t> Complete(StepEngine& engine, ModelRunner& target,
                                     const std::vector<int32_t>& prompt, size_t length,
                                     SequenceKey key = 1, int64_t chunk = 64) {
  std::vector<std::unique_ptr<Answering>> answers;
  answers.push_back(std::make_unique<Answering>(target, key, prompt));
  for (int step = 0; step < 10'000 && !AllDone(answers, length); ++step)
    StepOnce(engine, answers, length, chunk);
  return answers.front()->answer();
}

inline std::vector<int32_t> TinyPrompt(size_t length, uint32_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < length; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(static_cast<int32_t>(seed >> 8) % static_cast<int32_t>(kTinyVocab));
  }
  return tokens;
}

}  // namespace tenon::testing

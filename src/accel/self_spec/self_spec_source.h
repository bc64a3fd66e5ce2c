// SelfSpecSource: guesses from the target model itself, made cheaper (QuantSpec, arXiv 2502.10424):
// weights in 4 bits, and of a hierarchical KV cache the upper halves alone.
//
// The draft has no cache of its own: it reads and writes the target's. It writes behind the
// sequence's length, into slots that the verifying step writes again, so a rejected guess costs
// nothing to take back. Owns the 4-bit copy of the weights, where there is one; without it the
// draft runs on the target's own weights. Threading: one thread.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "accel/module_context.h"
#include "accel/self_spec/draft_level.h"
#include "accel/speculation/draft_sampler.h"
#include "accel/speculation/guess_source.h"
#include "engine/exec/batch_builder.h"

namespace tenon {

class SelfSpecSource : public GuessSource {
 public:
  struct Options {
    GuessAcceptance acceptance = GuessAcceptance::kSameDraw;
    DraftLevelOptions level;
  };
  // `draft` shares the KV pool of `target`; null: the target's own weights.
  SelfSpecSource(ModelRunner& target, std::unique_ptr<AuxiliaryModel> draft, const Options& options)
      : target_(target),
        draft_(std::move(draft)),
        acceptance_(options.acceptance),
        level_(options.level) {}

  Status Propose(std::span<const GuessRequest> requests) override;
  void Observe(const SequenceTask& task, int64_t tried) override {
    level_.Observe(tried, task.accepted);
  }
  void Forget(SequenceKey key) override { samplers_.erase(key); }
  void ForgetAll() override { samplers_.clear(); }
  int64_t bytes() const override { return draft_ != nullptr ? draft_->bytes() : 0; }
  int level() const { return level_.level(); }

 private:
  struct Draft {
    SequenceTask* task = nullptr;
    DraftSampler* sampler = nullptr;
    int64_t most = 0;
    std::vector<int32_t> next;  // tokens of the coming step
    int64_t position = 0;       // of the first of them
  };

  // A prompt's chunk is not worth computing twice for the guesses behind it.
  static constexpr int64_t kMaxPending = 8;

  ModelRunner& runner() { return draft_ != nullptr ? draft_->runner() : target_; }
  Status Step(std::vector<Draft>& drafts);

  ModelRunner& target_;
  std::unique_ptr<AuxiliaryModel> draft_;
  GuessAcceptance acceptance_;
  DraftLevel level_;
  std::unordered_map<SequenceKey, DraftSampler> samplers_;
  BatchBuilder builder_;
};

}  // namespace tenon

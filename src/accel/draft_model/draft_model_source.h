// DraftModelSource: guesses from a smaller model with the same tokenizer (Leviathan et al. 2023).
//
// The draft model has a KV cache of its own for each sequence. What it missed (the prompt, tokens
// that the target chose instead of its guesses) it computes first, at most one full step of it per
// round over all sequences, so that a long prompt never holds the others up for longer than that;
// until it has caught up, a sequence gets no guesses. When its pool is full, the sequence that was
// longest without a draft gives its blocks back.
//
// Owns the model. Threading: one thread.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "accel/module_context.h"
#include "accel/speculation/draft_sampler.h"
#include "accel/speculation/guess_source.h"
#include "engine/exec/batch_builder.h"

namespace tenon {

class DraftModelSource : public GuessSource {
 public:
  // REQUIRES: the draft model gives at least `target_vocab` logits.
  DraftModelSource(std::unique_ptr<AuxiliaryModel> model, GuessAcceptance acceptance,
                   int64_t target_vocab)
      : model_(std::move(model)), acceptance_(acceptance), target_vocab_(target_vocab) {}

  Status Propose(std::span<const GuessRequest> requests) override;
  void Forget(SequenceKey key) override { states_.erase(key); }
  void ForgetAll() override { states_.clear(); }
  Status Warm() override;
  int64_t bytes() const override { return model_->bytes(); }

 private:
  struct State {
    State(KvPool& pool, const SequenceTask& task, GuessAcceptance acceptance)
        : kv(pool, task.sequence->scope(), task.sequence->prefix_cache()), sampler(acceptance) {}
    Sequence kv;  // in the draft model's pool
    DraftSampler sampler;
    uint64_t last_used = 0;
  };
  // A sequence of this round.
  struct Draft {
    SequenceTask* task = nullptr;
    State* state = nullptr;
    int64_t most = 0;
    std::vector<int32_t> next;  // tokens of the coming step
    bool draws = false;         // a guess comes from it
  };

  State& StateOf(const SequenceTask& task);
  bool PlanCatchUp(Draft& draft, int64_t& budget);
  bool Reserve(Draft& draft);
  bool EvictOneBut(SequenceKey key);
  Status Step(std::vector<Draft>& drafts);

  std::unique_ptr<AuxiliaryModel> model_;
  GuessAcceptance acceptance_;
  int64_t target_vocab_;
  std::unordered_map<SequenceKey, State> states_;
  uint64_t round_ = 0;
  BatchBuilder builder_;
};

}  // namespace tenon

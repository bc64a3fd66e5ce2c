// ActiveRequest and Choice: the state of a request between Submit and its last event.
//
// A request is one prompt with one or more choices. Its first choice computes the prompt; then the
// others fork from it, sharing its KV, and each goes its own way. Choices are what the scheduler
// runs. Made on the submitting thread, then owned by EngineCore. Threading: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "accel/step_engine.h"
#include "engine/exec/layer_checkpoints.h"
#include "engine/kv/sequence.h"
#include "engine/sample/sampler.h"
#include "engine/sched/batching.h"
#include "engine/sched/queue_order.h"
#include "frontend/serving/serving_engine.h"
#include "frontend/session/answer.h"

namespace tenon {

// What chooses a choice's tokens and turns them into text.
struct Voice {
  Sampler sampler;
  Answer answer;
};

struct ActiveRequest {
  RequestId id = 0;
  ModuleMask modules = kAllModules;  // that may work on it
  ServingRequest spec;  // its prompt and stop strings were moved to where they are used
  std::vector<int32_t> prompt;
  EventSink sink;
  ServingEngine::EmbeddingSink embedding_sink;  // set: an embedding, without voices
  SchedTime submitted;
  std::vector<Voice> voices;  // of the choices that did not begin yet; the last one is the next

  std::optional<SchedTime> started;
  std::optional<SchedTime> first_token;
  SchedTime last_token;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int32_t choices_begun = 0;
  int32_t choices_left = 0;  // that are not done
  FinishReason last_finish = FinishReason::kStop;
  std::optional<Error> failure;  // set: it ends with this as soon as the step is over
  bool is_over = false;          // its last event was sent

  // Prompt positions whose output rows were taken in, for prompt logprobs and embeddings.
  int64_t scored = 0;
  std::vector<SampledToken> prompt_logprobs;
  std::vector<double> hidden_sum;  // [hidden]
  int64_t hidden_rows = 0;         // that are in hidden_sum

  bool is_embedding() const { return embedding_sink != nullptr; }
  int64_t prompt_tokens() const { return static_cast<int64_t>(prompt.size()); }
  // Output rows of the prompt are wanted and not all there.
  bool NeedsScores() const {
    return (is_embedding() || spec.prompt_logprobs == PromptLogprobs::kYes) &&
           scored < prompt_tokens();
  }
  RequestTimings TimingsAt(SchedTime now) const;
};

struct Choice {
  Choice(ActiveRequest& owner, SequenceKey id, Sequence kv, std::vector<int32_t> known)
      : request(&owner), key(id), sequence(std::move(kv)), tokens(std::move(known)) {}

  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - sequence.length(); }
  bool IsInPrompt() const { return sequence.length() < request->prompt_tokens(); }

  ActiveRequest* request;
  SequenceKey key;
  int32_t index = 0;
  Sequence sequence;
  std::vector<int32_t> tokens;  // the prompt and the answer so far
  std::optional<Voice> voice;   // none for an embedding
  Entry entry = Entry::kFirst;
  PendingWork work;  // as the step engine sees it
  bool is_done = false;
  StateLog states;         // from which its KV can be rebuilt (ServingOptions::preemption)
  int64_t rebuild_to = 0;  // its KV is being rebuilt up to this position; 0: it is not
  SchedTime last_token;    // when this choice's latest token was there

  // A running request that is computing a prefix of this prompt, and how many of its tokens (whole
  // blocks) this one will take over. 0: nobody.
  RequestId leader = 0;
  int64_t leader_tokens = 0;
};

}  // namespace tenon

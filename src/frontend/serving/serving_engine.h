// ServingEngine: many requests on one loaded model. It owns the thread that runs the model: takes
// requests from any thread, lets the scheduler (engine/sched/) choose the tokens of each step, and
// tells every request's sink what became of it.
//
// Life of a request: Submit checks and queues it; kStarted when its first token enters a step;
// kText as text becomes certain; kDone for each choice; kFinished once, last. A request that fails
// later ends with one kError instead. After kFinished or kError the sink is never called again.
//
// Threading: Submit, Cancel, stats and health from any thread. Sinks are called on the engine's
// thread, between steps: they must be quick, must not block and must not throw; they may call
// Submit and Cancel.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accel/step_engine.h"
#include "base/result.h"
#include "engine/constrain/constraint.h"
#include "engine/kv/prefix_index.h"
#include "engine/kv/sequence.h"
#include "engine/sample/sampler.h"
#include "engine/sample/sampling_params.h"
#include "engine/sched/batching.h"
#include "frontend/serving/slot_table.h"
#include "frontend/session/generation.h"
#include "frontend/session/model.h"

namespace tenon {

using RequestId = uint64_t;

// What becomes of a sequence that has to give its KV blocks to others.
enum class Preemption : uint8_t {
  kRecompute,   // its tokens are computed again
  kCheckpoint,  // hidden states of every k-th layer are kept, and the KV is rebuilt from them
  kCheapest,    // whichever is predicted to take less time
};

struct ServingOptions {
  int64_t max_batch = 32;      // sequences that run at once; at most the model's batch_outputs
  int64_t token_budget = 512;  // tokens in one step; cut to the model's batch_tokens
  int64_t queue_limit = 512;   // waiting requests; beyond it Submit refuses
  std::chrono::milliseconds batch_window{50};  // wait for company; only when nothing runs
  BatchingPolicy policy = BatchingPolicy::kContinuous;
  Preemption preemption = Preemption::kRecompute;
  int64_t checkpoint_interval = 4;  // k; other than with kRecompute the states of all KV are kept
  std::chrono::seconds stuck_after{30};  // a step that takes longer makes health() kStuck
  int64_t batch_threshold = 0;           // waiting sequences that end the window; 0: max_batch
  int64_t warmup_steps = 4;              // decodes before the engine is ready
};

// Logprobs of the prompt's own tokens, for scoring (echo with logprobs).
enum class PromptLogprobs : uint8_t { kNo, kYes };

struct ServingRequest {
  std::string label;  // the frontend's request id, for logs
  std::vector<int32_t> prompt;
  SamplingParams sampling;                 // choice i of n uses seed + i
  std::shared_ptr<Constraint> constraint;  // what the answers must look like; null: anything
  std::vector<std::string> stop;
  EndTokens end_tokens = EndTokens::kStop;
  int64_t max_tokens = -1;  // -1: until an end token, a stop or the context's limit
  int32_t choices = 1;      // answers to the same prompt, which share its KV
  int32_t priority = 0;     // higher goes first
  std::string tenant;       // fairness: waiting requests of tenants take turns
  CacheScope scope;         // who may share KV with it
  int32_t slot = -1;        // remembers the conversation (slot_table.h); -1: any of them
  PrefixCache prefix_cache = PrefixCache::kOn;
  PromptLogprobs prompt_logprobs = PromptLogprobs::kNo;  // with sampling.logprobs alternatives
  // The acceleration modules that may work on it, by name; empty list: none; nullopt: all.
  std::optional<std::vector<std::string>> modules;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// A text whose vector is wanted.
struct EmbeddingRequest {
  std::vector<int32_t> tokens;
  std::string tenant;  // fairness, as for answers
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct RequestTimings {
  double queue_s = 0.0;        // Submit to the first step that has its tokens
  double prefill_s = 0.0;      // from there to the first token
  double first_token_s = 0.0;  // Submit to the first token
  double decode_s = 0.0;       // first token to the last
  double total_s = 0.0;
};

struct ServingEvent {
  enum class Kind : uint8_t { kStarted, kText, kDone, kFinished, kError };
  Kind kind = Kind::kText;
  RequestId id = 0;
  int32_t choice = 0;  // kText, kDone

  // kStarted and kFinished:
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  std::vector<SampledToken>
      prompt_logprobs;  // kStarted; for prompt tokens 1 and on, when asked for

  // kText: `text` is whole UTF-8, may be empty when tokens gave none yet; concatenated over the
  // events of a choice it is the answer. Tokens are the ones taken in since the last event.
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<SampledToken> sampled;  // with sampling.logprobs only, one for each token

  // kDone:
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_text;  // the stop string that was found; empty: an end token, or no stop

  // kDone (this choice) and kFinished (all choices):
  int64_t completion_tokens = 0;
  RequestTimings timings;

  Error error;  // kError; kCancelled after Cancel or a passed deadline
};
using EventSink = std::function<void(ServingEvent)>;

// Numbers of the whole engine since its start, or now; taken at the end of each step, so an event
// may come a moment before the numbers that include it. Bucketed histograms are the metrics' job:
// they listen through ServingObserver.
struct ServingStats {
  int64_t running = 0;  // sequences
  int64_t waiting = 0;  // requests
  uint64_t steps = 0;
  uint64_t step_tokens = 0;     // tokens over all steps
  uint64_t step_sequences = 0;  // sequences over all steps: occupancy = this / steps
  uint64_t prompt_tokens = 0;   // computed or found in the cache
  uint64_t cached_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t checkpointed_preemptions = 0;  // of these
  uint64_t rebuilt_tokens = 0;            // from checkpoints
  double rebuild_s = 0.0;                 // time that took
  int64_t checkpoint_bytes = 0;           // of hidden states that are kept now
  double busy_s = 0.0;                    // time inside steps
  double uptime_s = 0.0;
  KvStats kv;
};

enum class Health : uint8_t { kStarting, kReady, kDraining, kStuck, kStopped };
std::string_view HealthName(Health health);

// How many answers to one prompt a server gives: each is a sequence of the batch. Fails with
// kInvalidArgument at "n", naming the limit and the flag that sets it. Any thread.
Status CheckChoices(int32_t choices, const ServingOptions& options);

// Called on the engine's thread; the same rules as for sinks.
class ServingObserver {
 public:
  virtual ~ServingObserver() = default;
  virtual void OnStep(double seconds, int64_t tokens, int64_t sequences) = 0;
  virtual void OnInterToken(double seconds) = 0;  // between two tokens of one choice
  virtual void OnFirstToken(const RequestTimings& timings) = 0;
  // One call for each request that ended; `outcome` is a FinishReasonName or an ErrorCodeName.
  virtual void OnEnd(std::string_view outcome, const RequestTimings& timings, int64_t prompt_tokens,
                     int64_t completion_tokens) = 0;
};

class ServingEngine {
 public:
  // Starts the thread and runs a warm-up step before health() becomes kReady. `model` is loaded and
  // is used by nobody else until the engine is gone; `observer` may be null and must outlive it.
  // `steps`, on the same model, runs the steps and outlives the engine, which alone uses it; null:
  // the model alone, without modules.
  // Fails with kInvalidArgument, naming the field, for options that the model can't serve.
  static Result<std::unique_ptr<ServingEngine>> Start(Model& model, const ServingOptions& options,
                                                      ServingObserver* observer,
                                                      StepEngine* steps = nullptr);
  virtual ~ServingEngine() = default;  // cancels what runs and waits for the thread

  // Fails with kInvalidArgument, naming the field, for a request that can never run (empty, too
  // long for the context with both numbers, bad sampling values), with kResourceExhausted when the
  // queue is full, and with kCancelled when draining. The sink is not called then.
  virtual Result<RequestId> Submit(ServingRequest request, EventSink sink) = 0;
  // Ends the request at the next step's end, with kError kCancelled; nothing when it is over.
  virtual void Cancel(RequestId id) = 0;

  // The mean of the final hidden states of the tokens, not normalised, [embedding size]. Queued
  // like any request; the result is given on the engine's thread.
  using EmbeddingSink = std::function<void(Result<std::vector<float>>)>;
  virtual Result<RequestId> SubmitEmbedding(EmbeddingRequest request, EmbeddingSink sink) = 0;

  // Runs `action` on the engine's thread between two steps, soon: for modules, which are switched
  // there. Not run when the engine stops first; an engine without a thread runs it at once.
  virtual void Post(std::function<void()> action) { action(); }

  // Saves, restores or erases what a slot remembers, between two steps; the result is given on the
  // engine's thread. Steps wait for the file.
  virtual void OrderSlot(SlotOrder order, SlotSink sink) {
    (void)order;
    sink(Unsupported("this engine has no slots"));
  }

  // Refuses new requests; returns when the accepted ones are done or the time is over (then they
  // are cancelled).
  virtual void Drain(std::chrono::milliseconds limit) = 0;

  virtual ServingStats stats() const = 0;
  virtual Health health() const = 0;
  virtual const Model& model() const = 0;
  virtual const ServingOptions& options() const = 0;
};

}  // namespace tenon

// Module: something that makes answers cheaper, in three parts, so that modules compose.
//
//  - a PreAdapter turns a request into the module's input, or says that the module has nothing to
//    do with it;
//  - an execution engine wraps the next step function of the chain (step_engine.h);
//  - a PostAggregator looks at what came back, joins it and verifies that it is whole.
//
// A module is its folder in src/accel/ plus one line in module_list.cc (docs/add-module.md).
//
// Ownership: the chain owns its modules; a module owns its engine, its state for each sequence and
// its models; the target model belongs to the session and outlives the chain. Memory: what Create
// took is `bytes`; Resize gives some back. Cancellation: Forget, on the engine as on the adapter.
// Threading: Create on any thread, everything else on the thread that steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accel/step_engine.h"
#include "base/result.h"
#include "engine/sample/sampling_params.h"

namespace tenon {

// Where a module stands in the chain, from the outermost to the innermost; of one stage, in the
// order of the configuration.
enum class ModuleStage : uint8_t {
  kRouting,       // which model decides
  kSpeculation,   // what is guessed before it does
  kQuantization,  // in which precision it computes
  kPhaseSplit,    // on which machine
};
std::string_view ModuleStageName(ModuleStage stage);

// What a PreAdapter may know of a request. Views, valid during the call.
struct RequestView {
  SequenceKey key = 0;
  std::span<const int32_t> prompt;
  const SamplingParams* sampling = nullptr;  // null for an embedding
  int64_t most_tokens = -1;                  // -1: no limit but the context's
};

enum class Participation : uint8_t { kJoin, kPass };

class PreAdapter {
 public:
  virtual ~PreAdapter() = default;
  // Once for each sequence before its first step; again after a change of the chain. kPass leaves
  // the sequence to the others. An error refuses the request; use it only where passing would be
  // wrong.
  virtual Result<Participation> Adapt(const RequestView& request) = 0;
  virtual void Forget(SequenceKey key) = 0;
};

// One sequence before and after a step of the module's engine.
struct StepOutcome {
  const SequenceTask* task = nullptr;  // with its results
  int64_t length_before = 0;           // of the target sequence
  uint64_t digest_before = 0;          // Sampler::digest() of the first sampler
};

class PostAggregator {
 public:
  virtual ~PostAggregator() = default;
  // Fails, saying what is broken, when tokens were lost, doubled, put out of order or made up. The
  // chain then takes the step back for this sequence, lets the plain engine decide instead, and
  // counts the failure: the request goes on.
  virtual Status Verify(const StepOutcome& outcome) = 0;
};

// Since the module was made.
struct ModuleStats {
  uint64_t steps = 0;      // with at least one sequence of the module's
  uint64_t sequences = 0;  // over all of them
  uint64_t decided = 0;    // tokens of those sequences
  uint64_t proposed = 0;   // tokens that the module offered: guesses, or a small model's choices
  uint64_t accepted = 0;   // of them, those that became part of an answer
  uint64_t passed = 0;     // sequences that the pre-adapter left to others
  uint64_t paused = 0;     // sequence steps in which the module stood back because it did not pay
  uint64_t integrity_checks = 0;
  uint64_t integrity_failures = 0;
  double seconds = 0.0;  // in the module's own work, without the next engine's
};

struct ModuleInfo {
  std::string name;
  ModuleStage stage = ModuleStage::kSpeculation;
  int64_t bytes = 0;      // that it holds now
  int64_t min_bytes = 0;  // with which it could still work
};

class Module {
 public:
  virtual ~Module() = default;

  virtual ModuleInfo info() const = 0;
  virtual PreAdapter& pre_adapter() = 0;
  virtual PostAggregator& post_aggregator() = 0;
  // Its engine in front of `next`. Called whenever the chain changes; keeps what is known of the
  // sequences. `bit` marks the tasks that are the module's.
  virtual StepEngine& Attach(StepEngine& next, ModuleMask bit) = 0;
  // Leaves the chain: drops the state of all sequences. Attach may follow later.
  virtual void Detach() = 0;
  // Gives memory back until info().bytes <= bytes. kResourceExhausted when it can't; it then works
  // as before and the caller has to detach it.
  virtual Status Resize(int64_t bytes);

  // A request is expected soon: brings what its first step needs into memory and caches, such as by
  // one step of the module's own model. Between steps; some milliseconds at most.
  virtual Status Warm() { return {}; }

  // What the module counts itself: proposed, accepted, paused, seconds. The chain adds the rest.
  virtual ModuleStats stats() const = 0;

  // More numbers for metrics and reports, by name.
  struct Gauge {
    std::string name;
    double value = 0.0;
  };
  virtual std::vector<Gauge> gauges() const { return {}; }
};

}  // namespace tenon

// SpeculationModule: a module that is a source of guesses and nothing else.
//
// Options that all of them have: `max_guesses` (tokens a round, 1 to 32), `length` (adaptive or
// fixed), `acceptance` (same_draw: the answer is, token for token, what plain decoding with the
// same seed gives; rejection: the same distribution, more guesses accepted, where the source knows
// what it drew from). Owns the source. Threading: as module.h.
#pragma once

#include <memory>
#include <string>

#include "accel/module.h"
#include "accel/module_options.h"
#include "accel/sequence_integrity.h"
#include "accel/speculation/speculation_engine.h"

namespace tenon {

struct SpeculationOptions {
  int64_t max_guesses = 5;
  LengthPolicy length = LengthPolicy::kAdaptive;
  double prior = 0.7;  // acceptance that is assumed before anything was seen
};

// Reads max_guesses and length.
void ReadSpeculationOptions(OptionReader& reader, SpeculationOptions& options);

enum class GuessAcceptance : uint8_t { kSameDraw, kRejection };
void ReadAcceptance(OptionReader& reader, GuessAcceptance& acceptance);

class SpeculationModule : public Module, private PreAdapter {
 public:
  SpeculationModule(std::string name, std::unique_ptr<GuessSource> source,
                    const SpeculationOptions& options);

  ModuleInfo info() const override;
  PreAdapter& pre_adapter() override { return *this; }
  PostAggregator& post_aggregator() override { return aggregator_; }
  StepEngine& Attach(StepEngine& next, ModuleMask bit) override;
  void Detach() override { engine_.ForgetAll(); }
  Status Warm() override { return source_->Warm(); }
  ModuleStats stats() const override { return engine_.stats(); }
  std::vector<Gauge> gauges() const override;

 private:
  // Every answer may be guessed at, an embedding has none.
  Result<Participation> Adapt(const RequestView& request) override;
  void Forget(SequenceKey) override {}

  std::string name_;
  std::unique_ptr<GuessSource> source_;
  SpeculationEngine engine_;
  WholeSequences aggregator_;
};

}  // namespace tenon

#include "accel/speculation/speculation_module.h"

#include <array>
#include <utility>

namespace tenon {
namespace {

// Steps of up to this many tokens have their cost remembered: 32 sequences with a guess or two.
constexpr int64_t kRememberedStepTokens = 96;

constexpr std::array<std::string_view, 2> kLengthNames = {"adaptive", "fixed"};
constexpr std::array<std::string_view, 2> kAcceptanceNames = {"same_draw", "rejection"};

}  // namespace

void ReadSpeculationOptions(OptionReader& reader, SpeculationOptions& options) {
  constexpr OptionRange kGuesses = {1, 32};
  reader.Int("max_guesses", options.max_guesses, kGuesses);
  size_t length = static_cast<size_t>(options.length);
  reader.Choice("length", length, kLengthNames);
  options.length = static_cast<LengthPolicy>(length);
}

void ReadAcceptance(OptionReader& reader, GuessAcceptance& acceptance) {
  size_t index = static_cast<size_t>(acceptance);
  reader.Choice("acceptance", index, kAcceptanceNames);
  acceptance = static_cast<GuessAcceptance>(index);
}

SpeculationModule::SpeculationModule(std::string name, std::unique_ptr<GuessSource> source,
                                     const SpeculationOptions& options)
    : name_(std::move(name)),
      source_(std::move(source)),
      engine_(*source_, {options.length, options.max_guesses, kRememberedStepTokens},
              options.prior) {}

ModuleInfo SpeculationModule::info() const {
  const int64_t bytes = source_->bytes();
  return {name_, ModuleStage::kSpeculation, bytes, bytes};
}

StepEngine& SpeculationModule::Attach(StepEngine& next, ModuleMask bit) {
  engine_.Attach(next, bit);
  return engine_;
}

std::vector<Module::Gauge> SpeculationModule::gauges() const {
  const ModuleStats& stats = engine_.stats();
  const auto proposed = static_cast<double>(stats.proposed);
  return {{"acceptance", proposed > 0 ? static_cast<double>(stats.accepted) / proposed : 0.0},
          {"guess_seconds", engine_.length().guess_seconds()},
          {"plain_step_seconds", engine_.length().StepSeconds(1)}};
}

Result<Participation> SpeculationModule::Adapt(const RequestView& request) {
  return request.sampling == nullptr ? Participation::kPass : Participation::kJoin;
}

}  // namespace tenon

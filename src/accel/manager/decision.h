// Decision: one change that the supervisor made, with its reason; what metrics, log and page show.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

enum class SupervisionState : uint8_t {
  kOff,      // not asked for
  kActive,   // takes part in every step, but for the bursts that measure the rest
  kCooling,  // withdrawn by a rule, waits
  kTrial,    // takes part in bursts only, to see whether it pays again
  kRefused,  // its memory does not fit its quota; only the operator can change that
};
std::string_view SupervisionStateName(SupervisionState state);

enum class ModuleAction : uint8_t {
  kEnabled,     // by the operator or at the start
  kDisabled,    // withdrawn, by the operator or a rule
  kDegraded,    // withdrawn, so that one module is left
  kRolledBack,  // withdrawn, because the tail rose
  kShrunk,      // works with less memory than it wanted
  kRefused,
  kOnTrial,   // its wait is over
  kReturned,  // a trial went well
};
std::string_view ModuleActionName(ModuleAction action);

// What a decision is based on, by the configuration's names.
enum class ModuleRule : uint8_t { kOperator, kSaving, kIntegrity, kTail, kQuota };
std::string_view ModuleRuleName(ModuleRule rule);

struct Decision {
  std::chrono::steady_clock::time_point time;
  std::string module;
  ModuleAction action = ModuleAction::kEnabled;
  ModuleRule rule = ModuleRule::kOperator;
  double measured = 0.0;  // shares, or bytes for kQuota
  double limit = 0.0;
  std::string reason;  // one sentence with both numbers
};

}  // namespace tenon

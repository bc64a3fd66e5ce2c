#include "accel/manager/decision.h"

namespace tenon {

std::string_view SupervisionStateName(SupervisionState state) {
  switch (state) {
    case SupervisionState::kOff:
      return "off";
    case SupervisionState::kActive:
      return "active";
    case SupervisionState::kCooling:
      return "cooling";
    case SupervisionState::kTrial:
      return "trial";
    case SupervisionState::kRefused:
      return "refused";
  }
  return "";
}

std::string_view ModuleActionName(ModuleAction action) {
  switch (action) {
    case ModuleAction::kEnabled:
      return "enabled";
    case ModuleAction::kDisabled:
      return "disabled";
    case ModuleAction::kDegraded:
      return "degraded";
    case ModuleAction::kRolledBack:
      return "rolled_back";
    case ModuleAction::kShrunk:
      return "shrunk";
    case ModuleAction::kRefused:
      return "refused";
    case ModuleAction::kOnTrial:
      return "on_trial";
    case ModuleAction::kReturned:
      return "returned";
  }
  return "";
}

std::string_view ModuleRuleName(ModuleRule rule) {
  switch (rule) {
    case ModuleRule::kOperator:
      return "operator";
    case ModuleRule::kSaving:
      return "min_latency_saving";
    case ModuleRule::kIntegrity:
      return "max_integrity_failures";
    case ModuleRule::kTail:
      return "p99_rollback";
    case ModuleRule::kQuota:
      return "module_memory_quota";
  }
  return "";
}

}  // namespace tenon

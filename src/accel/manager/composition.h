// Which modules may work together, and in which order they wrap the engine.
//
// The order is routing, quantization, phase split: the outermost one decides which model a token
// comes from, the next how that model's step is computed, the innermost where. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tenon {

// The place of a module in the order. Two modules of one kind exclude each other, but for kOther.
enum class ModuleKind : uint8_t {
  kRouting,       // which of several models decides a token
  kSpeculation,   // drafts that a step verifies; belongs to how a model's step is computed
  kQuantization,  // precision of weights and KV cache
  kPhaseSplit,    // where prefill and decode run
  kOther,         // outermost, in the order given: it knows only requests and tokens
};

struct ModulePlace {
  std::string name;
  ModuleKind kind = ModuleKind::kOther;
};

// Indices into `modules`, outermost first. Fails with kInvalidArgument, naming both, for two of the
// same name or the same exclusive kind, and for more than ModuleBits::kMaxModules.
Result<std::vector<size_t>> ComposeModules(std::span<const ModulePlace> modules);

}  // namespace tenon

// Which modules may stand in one chain. Their order is the chain's (module_chain.h): routing,
// speculation, quantization, phase split.
#pragma once

#include <span>

#include "accel/module.h"
#include "base/result.h"

namespace tenon {

// Fails with kInvalidArgument, naming both, for two modules that decide the same thing: which model
// writes a token, or on which machine it runs. Guesses of several modules go together, the outer
// one first, and so do precisions.
Status CheckComposition(std::span<const ModuleInfo> modules);

}  // namespace tenon

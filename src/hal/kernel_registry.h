// The CPU kernel sets of this build, best first, and the choice among them.
//
// Threading: const after the first call; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hal/kernel_set.h"

namespace tenon {

// The raw sets (holes included) that this machine can run, best first; the last one is always ref.
std::span<const KernelSet* const> RunnableKernelSets();

// Names of all sets in this build, best first, runnable here or not.
std::vector<std::string> BuiltKernelSetNames();

// The set called `name` with its holes filled from the sets after it; an empty name means the best
// runnable one. kInvalidArgument for a name that is not built, kUnsupported for one that this CPU
// can't run; both list what would work.
Result<KernelSet> ResolveKernelSet(std::string_view name);

// ResolveKernelSet of the environment variable TENON_CPU (unset or empty: best).
Result<KernelSet> ResolveKernelSetFromEnvironment();

}  // namespace tenon

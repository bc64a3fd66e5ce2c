// The CPU kernel sets of this build, best first, and the choice among them.
//
// Threading: const after the first call; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hal/cpu_features.h"
#include "hal/kernel_set.h"

namespace tenon {

// The raw sets (holes included) that a machine with `features` can run, best first; the last one is
// always ref.
std::vector<const KernelSet*> KernelSetsFor(const CpuFeatures& features);

// KernelSetsFor the running machine.
std::span<const KernelSet* const> RunnableKernelSets();

// Names of all sets in this build, best first, runnable here or not.
std::vector<std::string> BuiltKernelSetNames();

// The first of `sets` with its holes filled from the ones after it. REQUIRES: sets is not empty and
// its last one has no hole.
KernelSet FillHoles(std::span<const KernelSet* const> sets);

// The set called `name` with its holes filled from the sets after it; an empty name means the best
// runnable one. kInvalidArgument for a name that is not built, kUnsupported for one that this CPU
// can't run; both list what would work.
Result<KernelSet> ResolveKernelSet(std::string_view name);

// ResolveKernelSet of the environment variable TENON_CPU (unset or empty: best). Callers that are
// about to compute with the set let SelfCheck (hal/self_check.h) look at it first.
Result<KernelSet> ResolveKernelSetFromEnvironment();

}  // namespace tenon

// The kernel sets that src/hal/cpu/<isa>/ export, one per instruction set. The registry's list
// (hal/kernel_registry.cc) decides which of them a build holds and a machine runs.
#pragma once

#include "hal/kernel_set.h"

namespace tenon {

extern const KernelSet kRefKernelSet;
extern const KernelSet kAvx2KernelSet;
extern const KernelSet kAvx512VnniKernelSet;
extern const KernelSet kAmxKernelSet;
extern const KernelSet kNeonKernelSet;

}  // namespace tenon

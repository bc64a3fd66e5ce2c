// SelfCheck: a look at a kernel set on the machine it is about to run on, before a model does.
//
// A CPU, hypervisor or emulator that promises an instruction and computes something else would
// show as wrong text only. This costs less than a millisecond at load. Threading: free function.
#pragma once

#include "base/result.h"
#include "hal/kernel_set.h"

namespace tenon {

// Compares a small matrix product of every kind, one quantized row and one attention per KV type
// with the ref set's, bit for bit. kInternal, naming the kernel, the place and both values, when
// they differ. REQUIRES: `set` has no holes.
Status SelfCheck(const KernelSet& set);

}  // namespace tenon

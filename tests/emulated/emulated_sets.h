// The AVX-512 and AMX kernel sets, compiled from the same sources as the real ones, but to scalar
// code (emulated/shim): so they are tested on machines that have neither.
#pragma once

#include "hal/kernel_set.h"

namespace tenon {

extern const KernelSet kEmulatedAvx512VnniKernelSet;
extern const KernelSet kEmulatedAmxKernelSet;

}  // namespace tenon

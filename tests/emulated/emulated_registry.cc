// The generic kernel tests ask the registry what this machine runs. In this program it runs the
// emulated sets: this definition takes the place of the one in hal/kernel_registry.cc.
#include "emulated/emulated_sets.h"
#include "hal/cpu/kernel_sets.h"
#include "hal/kernel_registry.h"

namespace tenon {

std::span<const KernelSet* const> RunnableKernelSets() {
  static constexpr const KernelSet* kSets[] = {&kEmulatedAmxKernelSet,
                                               &kEmulatedAvx512VnniKernelSet, &kRefKernelSet};
  return kSets;
}

}  // namespace tenon

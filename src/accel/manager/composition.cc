#include "accel/manager/composition.h"

#include <fmt/format.h>

namespace tenon {

Status CheckComposition(std::span<const ModuleInfo> modules) {
  const ModuleInfo* by_stage[4] = {};
  for (const ModuleInfo& module : modules) {
    if (module.stage != ModuleStage::kRouting && module.stage != ModuleStage::kPhaseSplit)
      continue;
    const ModuleInfo*& first = by_stage[static_cast<size_t>(module.stage)];
    if (first != nullptr) {
      return InvalidArgument(
          fmt::format("{} does the same as {}; only one of them can be in the chain", module.name,
                      first->name),
          fmt::format("modules.{}", module.name));
    }
    first = &module;
  }
  return {};
}

}  // namespace tenon

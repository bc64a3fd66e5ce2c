#include "model/arch/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tenon {
namespace {

constexpr Architecture kArchitectures[] = {
#define TENON_LIST_FAMILY(name, build, pairs) {#name, build, GgufPairs::pairs},
    TENON_MODEL_FAMILIES(TENON_LIST_FAMILY)
#undef TENON_LIST_FAMILY
};

}  // namespace

std::span<const Architecture> Architectures() {
  return kArchitectures;
}

const Architecture* FindArchitecture(std::string_view name) {
  const Architecture* found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == std::end(kArchitectures) ? nullptr : found;
}

Result<Graph> BuildGraph(const ModelSource& source) {
  if (const Architecture* found = FindArchitecture(source.config.architecture))
    return found->build(source);
  std::string known;
  for (const Architecture& architecture : kArchitectures)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  return Unsupported(fmt::format("architecture '{}' is not supported; supported are: {}",
                                 source.config.architecture, known),
                     "general.architecture");
}

}  // namespace tenon

#include "accel/manager/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "accel/manager/module_bits.h"

namespace tenon {
namespace {

// kOther stands outside all others.
int Rank(ModuleKind kind) {
  return kind == ModuleKind::kOther ? -1 : static_cast<int>(kind);
}

Status CheckPair(const ModulePlace& a, const ModulePlace& b) {
  if (a.name == b.name)
    return InvalidArgument("the module is listed twice", fmt::format("modules.{}", a.name));
  if (a.kind == b.kind && a.kind != ModuleKind::kOther) {
    return InvalidArgument(
        fmt::format("does the same as '{}'; only one of them can be in the chain", b.name),
        fmt::format("modules.{}", a.name));
  }
  return {};
}

}  // namespace

Result<std::vector<size_t>> ComposeModules(std::span<const ModulePlace> modules) {
  if (modules.size() > ModuleBits::kMaxModules) {
    return InvalidArgument(
        fmt::format("found {}, expected at most {}", modules.size(), ModuleBits::kMaxModules),
        "modules");
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      TENON_RETURN_IF_ERROR(CheckPair(modules[i], modules[j]));
  }
  std::vector<size_t> order(modules.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return Rank(modules[a].kind) < Rank(modules[b].kind);
  });
  return order;
}

}  // namespace tenon

#include "accel/module_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "accel/adaptive/adaptive_module.h"
#include "accel/draft_model/draft_model_module.h"
#include "accel/ngram/ngram_module.h"
#include "accel/plugin/plugin_module.h"
#include "accel/routing/routing_module.h"
#include "accel/self_spec/self_spec_module.h"

namespace tenon {
namespace {

// One line for each module.
constexpr std::array kModules = {
    ModuleEntry{"ngram", "guesses looked up in the prompt and the answer", CreateNgramModule},
    ModuleEntry{"routing", "a small model writes what it is sure of", CreateRouting},
    ModuleEntry{"draft_model", "guesses from a smaller model", CreateDraftModelModule},
    ModuleEntry{"self_spec", "guesses from the model itself in 4 bits", CreateSelfSpecModule},
    ModuleEntry{"plugin", "guesses from a shared library", CreatePluginModule},
    ModuleEntry{"adaptive", "short prompts on weights of 4 bits", CreateAdaptiveModule},
};

}  // namespace

std::span<const ModuleEntry> KnownModules() {
  return kModules;
}

bool IsKnownModule(std::string_view name) {
  return std::ranges::find(kModules, name, &ModuleEntry::name) != kModules.end();
}

std::string KnownModuleNames() {
  std::string names;
  for (const ModuleEntry& entry : kModules)
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

Result<std::unique_ptr<Module>> CreateModule(const ModuleContext& context) {
  const auto entry = std::ranges::find(kModules, context.name, &ModuleEntry::name);
  if (entry != kModules.end())
    return entry->create(context);
  return NotFound(fmt::format("no module {}; there are: {}", context.name, KnownModuleNames()),
                  "modules");
}

}  // namespace tenon

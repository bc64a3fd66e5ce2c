// The modules that this build has, in an explicit list.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "accel/module.h"
#include "accel/module_context.h"
#include "base/result.h"

namespace tenon {

struct ModuleEntry {
  std::string_view name;  // its key under `modules:`
  std::string_view summary;
  // Fails with kInvalidArgument, naming the option, or with what loading its models failed with.
  Result<std::unique_ptr<Module>> (*create)(const ModuleContext& context);
};

std::span<const ModuleEntry> KnownModules();
bool IsKnownModule(std::string_view name);
// "ngram, routing, ...": for errors.
std::string KnownModuleNames();

// kNotFound with the known names.
Result<std::unique_ptr<Module>> CreateModule(const ModuleContext& context);

}  // namespace tenon

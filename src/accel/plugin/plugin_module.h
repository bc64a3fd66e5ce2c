// `plugin`: guesses from a shared library. Options: `library` (its file; required), `options` (an
// object, handed on to it), and those of speculation_module.h.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreatePluginModule(const ModuleContext& context);

}  // namespace tenon

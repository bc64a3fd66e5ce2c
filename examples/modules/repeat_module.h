// `repeat`: guesses that the last token comes again. The smallest module there can be;
// docs/add-module.md goes through it.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateRepeatModule(const ModuleContext& context);

}  // namespace tenon

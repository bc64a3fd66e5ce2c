// `ngram`: guesses looked up in the prompt and the answer so far. Options: `longest` and `shortest`
// n-gram (1 to 16), and those of speculation_module.h.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateNgramModule(const ModuleContext& context);

}  // namespace tenon

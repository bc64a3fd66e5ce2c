// `draft_model`: guesses from a smaller model. Options: `model` (a file, a directory or a name;
// required), `context` (its KV capacity in tokens; default: the target's), `weights` (as_stored or
// int4), and those of speculation_module.h. Refused when the tokenizers differ.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateDraftModelModule(const ModuleContext& context);

}  // namespace tenon

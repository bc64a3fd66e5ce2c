// `adaptive`: precision by request. Short prompts, whose answers lean on little context, go to a
// variant of the model with weights of 4 bits; long ones to the model as it is.
//
// Options: `short_prompt` (tokens; a prompt with fewer goes to the variant, default 128). Needs a
// second, 4-bit copy of the weights; both work on one KV cache. What the variant computed is not
// left in the prefix index, so that no other request ever meets it.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateAdaptiveModule(const ModuleContext& context);

}  // namespace tenon

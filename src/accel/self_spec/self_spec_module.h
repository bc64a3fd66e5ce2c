// `self_spec`: the model drafts for itself. Options: `weights` (int4: a second, 4-bit copy of the
// weights; as_stored: the model's own, for a model that has 4 bits already, or where memory is
// short; default int4), `max_acceptance_rate` and `min_acceptance_rate` (draft_level.h), and those
// of speculation_module.h. With a hierarchical KV cache (-ctk hier) the draft reads its upper half.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateSelfSpecModule(const ModuleContext& context);

}  // namespace tenon

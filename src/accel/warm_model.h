// Runs one token through a model and forgets it, so that its weights, code and workspace are where
// the next step needs them. Does nothing when the cache has no free slot: such a model is at work.
#pragma once

#include "base/result.h"
#include "engine/exec/model_runner.h"

namespace tenon {

[[nodiscard]] Status WarmModel(ModelRunner& runner);

}  // namespace tenon

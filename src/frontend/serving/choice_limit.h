// How many answers to one prompt a server gives: each is a sequence of the batch.
#pragma once

#include "base/result.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

// Fails with kInvalidArgument at "n", naming the limit and the flag that sets it. Any thread.
Status CheckChoices(int32_t choices, const ServingOptions& options);

}  // namespace tenon

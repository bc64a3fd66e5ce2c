// ModelFingerprint: a text that is the same exactly when saved KV fits: the model's tensors and how
// they are packed. Reads the tables and samples of the weights, not all of them: it tells models
// apart, it proves nothing against somebody who forges one.
// Threading: any thread.
#pragma once

#include <string>

#include "frontend/session/model.h"

namespace tenon {

// REQUIRES: the model is loaded.
std::string ModelFingerprint(const Model& model);

}  // namespace tenon

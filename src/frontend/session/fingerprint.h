// What tells one model from another: a router that was trained for two models is refused with
// others.
#pragma once

#include <string>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// 32 hexadecimal digits of the hyperparameters, the vocabulary's size and every tensor's name,
// type, shape and sampled bytes. Sampled: a model of many gigabytes has one in a moment, and
// training or quantizing moves nearly every weight. No protection against someone who wants a
// collision.
Result<std::string> ModelFingerprint(const ModelSource& source);

}  // namespace tenon

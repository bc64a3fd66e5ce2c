// Rotary parameters from the tables of cosines and sines that an ONNX decoder carries.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "model/model_config.h"

namespace tenon {

// What the tables were made from: frequencies base^(-2p/d), divided by `factors` where the model
// scales them (empty: plain).
struct TableRope {
  float base = 0.0F;
  std::vector<float> factors;
};

// `cos` and `sin` are [positions, pairs]. Fails when the tables are no rotations by multiples of
// one angle a pair, or have a magnitude other than 1.
Result<TableRope> RopeFromTables(std::span<const float> cos, std::span<const float> sin,
                                 int64_t pairs);

}  // namespace tenon

// Matrices that hold several: slices of them as tensors of their own.
#pragma once

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// Phi-3 keeps query, key and value in "blk.N.attn_qkv.weight" and gate and up in
// "blk.N.ffn_up.weight". Replaces both, in every layer, by slices of their rows under the names of
// the parts; no bytes move. kCorrupt, naming the tensor, when one is missing or has other rows than
// the hyperparameters say.
Status SlicePhi3Tensors(const ModelConfig& config, ModelSource& source);

}  // namespace tenon

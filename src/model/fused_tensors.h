// Matrices that hold several: slices of them as tensors of their own; and several that are one.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// Phi-3 keeps query, key and value in "blk.N.attn_qkv.weight" and gate and up in
// "blk.N.ffn_up.weight". Replaces both, in every layer, by slices of their rows under the names of
// the parts; no bytes move. kCorrupt, naming the tensor, when one is missing or has other rows than
// the hyperparameters say.
Status SlicePhi3Tensors(const ModelConfig& config, ModelSource& source);

// GPT-2 and GPT-NeoX keep query, key and value in "blk.N.attn_qkv", of equal sizes; the same for
// that, weight and bias.
Status SliceQkvTensors(const ModelConfig& config, ModelSource& source);

// Matrices of layers that are stored as [columns, rows], of 2- or 4-byte values, become [rows,
// columns] in memory.
Status TransposeLayers(ModelSource& source);
// The same for one matrix; none of that name is no error.
Status TransposeMatrix(std::string_view name, ModelSource& source);

// Rows of "blk.N.attn_qkv", weight and bias, from query, key and value of one head after the other
// to all queries, all keys, all values; in memory.
Status RegroupHeads(const ModelConfig& config, ModelSource& source);

// Experts that are tensors of their own, "blk.N.ffn_gate.E.weight", become one tensor in pieces,
// "blk.N.ffn_gate_exps.weight" [experts, rows, columns], in every layer that has experts; so do
// ffn_up and ffn_down. Layers that have the whole already stay as they are; no bytes move.
// kCorrupt, naming the tensor, when an expert is missing or differs from the first one.
Status StackExperts(const ModelConfig& config, ModelSource& source);

}  // namespace tenon

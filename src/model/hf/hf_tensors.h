// The tensors of a Hugging Face directory under GGUF's names.
//
// Matrices of F32, F16 and BF16 stay where they are in their files. Converted to memory are:
// vectors (to F32, Gemma's norms with their 1 added), F64 matrices (to F32) and FP8 ones (with
// their scales, to BF16), and those of GPTQ, AWQ and compressed-tensors (to block formats).
// Matrices that hold several (phi3's query, key and value) become slices of one.
#pragma once

#include <optional>

#include "base/result.h"
#include "model/hf/hf_config.h"
#include "model/hf/packed_weights.h"
#include "model/model_source.h"
#include "model/safetensors/safetensors_shards.h"

namespace tenon {

struct HfTensorOptions {
  // Rows and columns that one FP8 scale is for, where scales are a matrix
  // (quantization_config.weight_block_size).
  int64_t fp8_block_rows = 128;
  int64_t fp8_block_columns = 128;
  // Of matrices that are there as small integers, if any may be.
  std::optional<PackedFormat> packed;
  // Matrices may be there as compressed-tensors packs them; each tells its own format.
  bool compressed = false;
};

// Fills source.tensors, by_name and buffers; moves the files of `shards` to source.files. A tensor
// that the family does not have, a missing or superfluous bias, and a type without float values are
// errors that name the tensor and its file.
Status TakeHfTensors(SafetensorsShards shards, const HfConfig& config,
                     const HfTensorOptions& options, ModelSource& source);

}  // namespace tenon

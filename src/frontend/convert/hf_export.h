// Writes a model as a Hugging Face directory: config.json, safetensors (in shards), tokenizer
// files.
//
// Of a Hugging Face directory the text files are copied and, where nothing changes the values,
// tensors keep their names, shapes and bytes. Of other formats they are made. Matrices that a
// supply gives as Q4_0 or Q8_0 can stay small integers, in the format of the compressed-tensors
// package. Memory: some rows of a tensor (GPT-2's matrices: one tensor), one tensor of a supply
// that needs it. Threading: free functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/result.h"
#include "frontend/convert/tensor_supply.h"
#include "model/model_source.h"
#include "model/safetensors/safetensors_reader.h"

namespace tenon {

enum class PackedWeights : uint8_t {
  kFloats,             // quantized matrices become floats
  kCompressedTensors,  // Q4_0 and Q8_0 of linear modules stay integers
};

struct HfExportOptions {
  // kF32, kF16 or kBF16. None: floats keep their types, quantized values become F16.
  std::optional<SafetensorsType> floats;
  PackedWeights packed = PackedWeights::kFloats;
  int activation_bits = 0;   // 8: quantization_config says that activations are rounded too
  uint64_t shard_bytes = 0;  // of tensors in a file; 0: one file
};

// Writes into `directory`, which is made if it is not there; a directory that has a config.json is
// refused (kInvalidArgument). config.json comes last: an unfinished directory is no model.
Status ExportHf(const ModelSource& source, const HfExportOptions& options,
                const std::filesystem::path& directory);

// The same with values from `supply`.
Status ExportHf(const ModelSource& source, TensorSupply& supply, const HfExportOptions& options,
                const std::filesystem::path& directory);

}  // namespace tenon

// Writes a model as ONNX: standard operators of operator set 17, weights in a file beside the
// model.
//
// The graph takes input_ids, position_ids, attention_mask and past_key_values.N.key/.value and
// gives logits of all positions and present.N.key/.value. Weights are float32, or int8 rows with a
// scale each behind DequantizeLinear, the form that quantizing runtimes and TensorRT's builder
// take. Memory: one row of a matrix. Threading: free functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

enum class OnnxWeights : uint8_t { kF32, kI8 };

// Writes `path` and `path`.data; both appear whole or not at all. kUnsupported, naming the
// operator, for a model whose graph has one that has no ONNX form here.
Status ExportOnnx(const ModelSource& source, OnnxWeights weights,
                  const std::filesystem::path& path);

// The ONNX operators of the exported graph that TensorRT 10's parser does not take; empty for the
// decoders that are exported today.
std::vector<std::string> TensorRtGaps(const std::filesystem::path& path);

}  // namespace tenon

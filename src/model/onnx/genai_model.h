// Opens an ONNX Runtime GenAI folder (genai_config.json, model.onnx and its data, tokenizer files)
// as a ModelSource, so that it runs like a model of any other format.
//
// Weights are converted to the engine's block formats in memory (nbits_weights.h).
// Threading: free functions.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// The folder, when `path` is one that has genai_config.json or an .onnx file in one; else empty.
std::filesystem::path FindGenaiDirectory(const std::filesystem::path& path);

Result<ModelSource> OpenGenaiModel(const std::filesystem::path& directory);

}  // namespace tenon

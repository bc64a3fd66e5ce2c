// From a Hugging Face directory to a ModelSource: config.json, safetensors, tokenizer.json and the
// files beside them.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// The Hugging Face directory that `path` is, or is a file of (any but a GGUF file); empty when
// there is none.
std::filesystem::path FindHfDirectory(const std::filesystem::path& path);

// Opens the model in `directory`. Only tensors that must be converted are read.
Result<ModelSource> OpenHfModel(const std::filesystem::path& directory);

}  // namespace tenon

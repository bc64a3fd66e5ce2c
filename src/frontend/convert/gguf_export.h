// Writes a model as GGUF, from any format that is read.
//
// Of a GGUF input the metadata is copied. Otherwise it is made from the hyperparameters and the
// tokenizer, which has to be a byte-level BPE, the kind that GGUF calls "gpt2". Matrices keep their
// types. Memory: one tensor. Threading: free functions.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

// `pre_tokenizer` is GGUF's name for how text is split ("smollm", "llama-bpe", "qwen2", ...);
// empty: found out where the steps of tokenizer.json tell. The file appears when it is whole.
Status ExportGguf(const ModelSource& source, const std::string& pre_tokenizer,
                  const std::filesystem::path& path);

}  // namespace tenon

// Writes a model as GGUF, from any format that is read.
//
// Of a GGUF input the metadata is copied. Otherwise it is made from the hyperparameters and the
// tokenizer, which has to be a byte-level BPE, the kind that GGUF calls "gpt2". Matrices keep their
// types. Memory: a piece of a tensor. Threading: free functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

struct GgufExportOptions {
  // GGUF's name for how text is split ("smollm", "llama-bpe", "qwen2", ...); empty: found out where
  // the steps of tokenizer.json tell.
  std::string pre_tokenizer;
  uint64_t shard_bytes = 0;  // of tensors in a file; 0: one file
};

// Each file appears when it is whole. In shards, "out.gguf" becomes "out-00001-of-0000n.gguf" and
// so on, the first with all metadata, as llama.cpp splits files. A tensor that is larger than a
// shard has one for itself.
Status ExportGguf(const ModelSource& source, const GgufExportOptions& options,
                  const std::filesystem::path& path);

}  // namespace tenon

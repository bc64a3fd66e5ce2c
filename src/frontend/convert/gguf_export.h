// Writes a model as GGUF, from any format that is read.
//
// Of a GGUF input the metadata is copied. Otherwise it is made from the hyperparameters and the
// tokenizer, which has to be a byte-level BPE, the kind that GGUF calls "gpt2". Matrices keep their
// types, or get those of a supply. Memory: a piece of a tensor. Threading: free functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "frontend/convert/tensor_supply.h"
#include "model/gguf/gguf_writer.h"
#include "model/model_source.h"

namespace tenon {

struct GgufExportOptions {
  // GGUF's name for how text is split ("smollm", "llama-bpe", "qwen2", ...); empty: found out where
  // the steps of tokenizer.json tell.
  std::string pre_tokenizer;
  // Of tensors in a file; 0: one file. More files are called "NAME-00001-of-00003.gguf".
  uint64_t shard_bytes = 0;
  std::function<void(GgufMetadataBuilder&)> edit;  // changes the metadata; may be empty
};

// The file, or the first of several, appears when it is whole. Returns its path.
Result<std::filesystem::path> ExportGguf(const ModelSource& source, TensorSupply& supply,
                                         const GgufExportOptions& options,
                                         const std::filesystem::path& path);

// The source's tensors as they are.
Status ExportGguf(const ModelSource& source, const GgufExportOptions& options,
                  const std::filesystem::path& path);

// What ExportGguf would fail with before it writes.
Status CheckGgufExport(const ModelSource& source, const GgufExportOptions& options);

}  // namespace tenon

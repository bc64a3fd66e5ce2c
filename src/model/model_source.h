// ModelSource: all that a model file says, whatever its format: hyperparameters, tensors in mapped
// files, the tokenizer's tables and the chat template.
//
// Owns the mapped files. Every TensorInfo has been checked against its file. Threading: const after
// it was opened.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "model/model_config.h"
#include "model/tokenizer/tokenizer_spec.h"
#include "tensor/dtype.h"

namespace tenon {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first: a weight matrix is [rows, columns]
  uint32_t file = 0;           // index into ModelSource::files
  uint64_t offset = 0;         // of its first byte in that file
  uint64_t bytes = 0;

  // Values in a row (the innermost dimension) and number of rows (all the others).
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i)
      count *= shape[i];
    return count;
  }
};

struct ModelSource {
  std::string format;  // "gguf v3"
  ModelConfig config;
  std::vector<MappedFile> files;
  std::vector<TensorInfo> tensors;                  // in file order
  std::unordered_map<std::string, size_t> by_name;  // index into tensors
  TokenizerSpec tokenizer;
  std::string chat_template;                                  // Jinja source; empty: none
  std::vector<std::pair<std::string, std::string>> metadata;  // printable, for `inspect`

  // Null when there is no such tensor.
  const TensorInfo* Find(std::string_view name) const {
    auto found = by_name.find(std::string(name));
    return found == by_name.end() ? nullptr : &tensors[found->second];
  }
  std::span<const std::byte> Bytes(const TensorInfo& tensor) const {
    return files[tensor.file].bytes().subspan(tensor.offset, tensor.bytes);
  }
};

// Opens a model by what is at `path`: a GGUF file (any shard of a split one finds its siblings).
Result<ModelSource> OpenModel(const std::filesystem::path& path);

}  // namespace tenon

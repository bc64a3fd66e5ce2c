// ModelSource: all that a model file says, whatever its format: hyperparameters, tensors in mapped
// files, the tokenizer's tables and the chat template.
//
// Owns the mapped files and converted tensors. Every TensorInfo has been checked against its file.
// Threading: const after it was opened.
#pragma once

#include <cstdint>
#include <functional>
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
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace tenon {

struct TensorInfo {
  // Where the bytes are: in a file as they stand, or in memory because they had to be converted.
  enum class Storage : uint8_t { kFile, kBuffer };

  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first: a weight matrix is [rows, columns]
  uint32_t file = 0;           // index into ModelSource::files, or ::buffers
  uint64_t offset = 0;         // of its first byte there
  uint64_t bytes = 0;
  Storage storage = Storage::kFile;

  // Values in a row (the innermost dimension) and number of rows (all the others).
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i)
      count *= shape[i];
    return count;
  }
};

// Names are looked up in every step: without making a string of each.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

struct ModelSource {
  std::string format;  // "gguf v3", "safetensors"
  ModelConfig config;
  std::vector<MappedFile> files;
  std::vector<Buffer> buffers;                                                 // converted tensors
  std::vector<TensorInfo> tensors;                                             // in file order
  std::unordered_map<std::string, size_t, NameHash, std::equal_to<>> by_name;  // index into tensors
  TokenizerSpec tokenizer;
  std::string chat_template;                                  // Jinja source; empty: none
  std::vector<std::pair<std::string, std::string>> metadata;  // printable, for `inspect`

  // Null when there is no such tensor.
  const TensorInfo* Find(std::string_view name) const {
    auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : &tensors[found->second];
  }
  std::span<const std::byte> Bytes(const TensorInfo& tensor) const {
    const std::span<const std::byte> all = tensor.storage == TensorInfo::Storage::kFile
                                               ? files[tensor.file].bytes()
                                               : buffers[tensor.file].bytes();
    return all.subspan(tensor.offset, tensor.bytes);
  }
  // Copies out.size() of the tensor's bytes, from `offset` on. REQUIRES: inside the tensor.
  Status ReadAt(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const;
  // These bytes of the tensor will not be read again soon. REQUIRES: inside the tensor.
  void Release(const TensorInfo& tensor, uint64_t offset, uint64_t count) const;
};

// Opens a model by what is at `path`: a GGUF file (any shard of a split one finds its siblings), or
// a Hugging Face directory or a file in one.
Result<ModelSource> OpenModel(const std::filesystem::path& path);

}  // namespace tenon

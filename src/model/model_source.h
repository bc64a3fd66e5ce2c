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

class PluginOperators;

// Where bytes are: in a file as they stand, or in memory because they had to be converted.
enum class TensorStorage : uint8_t { kFile, kBuffer };

// One of the equal pieces along the outermost dimension of a tensor that lies in pieces.
struct TensorPiece {
  TensorStorage storage = TensorStorage::kFile;
  uint32_t file = 0;    // index into ModelSource::files, or ::buffers
  uint64_t offset = 0;  // of its first byte there
};

struct TensorInfo {
  using Storage = TensorStorage;

  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first: a weight matrix is [rows, columns]
  uint32_t file = 0;           // index into ModelSource::files, or ::buffers
  uint64_t offset = 0;         // of its first byte there
  uint64_t bytes = 0;
  Storage storage = Storage::kFile;
  // Not empty: the tensor is these (a layer's experts); file, offset and storage mean nothing.
  std::vector<TensorPiece> pieces;

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

// What the file says about the inputs of linears with quantized weights, but for the output head.
enum class ActivationFormat : uint8_t {
  kAny,           // nothing: the engine's own
  kInt8PerToken,  // 8 bits, one dynamic scale for each token (quant/activation_round.h)
};
inline constexpr std::string_view kInt8PerTokenName = "int8_per_token";  // in files

struct ModelSource {
  std::string format;  // "gguf v3", "safetensors"
  ModelConfig config;
  ActivationFormat activations = ActivationFormat::kAny;
  std::vector<MappedFile> files;
  std::vector<Buffer> buffers;                                                 // converted tensors
  std::vector<TensorInfo> tensors;                                             // in file order
  std::unordered_map<std::string, size_t, NameHash, std::equal_to<>> by_name;  // index into tensors
  TokenizerSpec tokenizer;
  std::string chat_template;                                  // Jinja source; empty: none
  std::vector<std::pair<std::string, std::string>> metadata;  // printable, for `inspect`
  // Of the plug-ins that architectures may use; not owned, null: none.
  const PluginOperators* plugins = nullptr;

  // Null when there is no such tensor.
  const TensorInfo* Find(std::string_view name) const {
    auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : &tensors[found->second];
  }
  // All of the tensor's bytes; none when it lies in pieces.
  std::span<const std::byte> Bytes(const TensorInfo& tensor) const {
    return tensor.pieces.empty() ? BytesAt(tensor, 0, tensor.bytes) : std::span<const std::byte>();
  }
  // `count` of the tensor's bytes from `offset` on. REQUIRES: inside the tensor, and inside one of
  // its pieces if it lies in pieces.
  std::span<const std::byte> BytesAt(const TensorInfo& tensor, uint64_t offset,
                                     uint64_t count) const;
  // Copies out.size() of the tensor's bytes, from `offset` on. REQUIRES: inside the tensor.
  Status ReadAt(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const;
  // These bytes of the tensor will not be read again soon. REQUIRES: inside the tensor.
  void Release(const TensorInfo& tensor, uint64_t offset, uint64_t count) const;
};

// Opens a model by what is at `path`: a GGUF file (any shard of a split one finds its siblings), or
// a Hugging Face directory or a file in one.
Result<ModelSource> OpenModel(const std::filesystem::path& path);

}  // namespace tenon

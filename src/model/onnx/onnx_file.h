// OnnxFile: a parsed ONNX model with the bytes of every tensor found and checked.
//
// Owns the mapped files and the values that had to be rewritten. Threading: const after Open.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "model/onnx/external_data.h"
#include "model/onnx/onnx_proto.h"
#include "tensor/element_type.h"

namespace tenon {

// Where a tensor's bytes are. `bytes` holds as many as type and shape need: little-endian, rows
// last dimension first, types below a byte packed from the low bits on.
struct OnnxTensorData {
  // Index into OnnxFile::files, or kMemory.
  static constexpr uint32_t kMemory = UINT32_MAX;

  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  uint32_t file = kMemory;
  uint64_t offset = 0;  // in the file
};

// Elements of a shape; an error for a negative extent and for more than 2^40.
Result<int64_t> CountElements(std::span<const int64_t> shape);

class OnnxFile {
 public:
  static Result<OnnxFile> Open(const std::filesystem::path& path);
  // A model in memory, which must outlive the file; external data is an error.
  static Result<OnnxFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  OnnxFile(OnnxFile&&) = default;
  OnnxFile& operator=(OnnxFile&&) = default;

  const OnnxModel& model() const { return model_; }
  const std::string& name() const { return name_; }
  const std::vector<MappedFile>& files() const { return files_; }
  // Files in the order that OnnxTensorData::file counts; the tensors' bytes stay valid.
  std::vector<MappedFile> TakeFiles() && { return std::move(files_); }
  // Values that were rewritten, which OnnxTensorData of kMemory points into.
  std::deque<std::vector<std::byte>> TakeOwned() && { return std::move(owned_); }

  // Type, shape and bytes of a tensor of this model. Files are opened when first needed.
  Result<OnnxTensorData> Data(const OnnxTensor& tensor);

 private:
  OnnxFile() = default;
  Result<OnnxTensorData> ExternalData(const OnnxTensor& tensor, OnnxTensorData data, uint64_t size);
  Result<std::span<const std::byte>> ListData(const OnnxTensor& tensor, ElementType type,
                                              int64_t count);
  Error Wrong(const OnnxTensor& tensor, std::string_view message) const;

  std::string name_;
  std::filesystem::path directory_;
  OnnxModel model_;
  std::vector<MappedFile> files_;                       // the model itself first, unless in memory
  std::unordered_map<std::string, uint32_t> external_;  // location to index
  bool may_open_ = false;
  std::deque<std::vector<std::byte>> owned_;
};

}  // namespace tenon

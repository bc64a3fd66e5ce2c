// GgufWriter: writes a GGUF file, version 3, little-endian, tensor after tensor.
//
// The file grows beside its path and takes its name in Close, so that an unfinished one never has
// it. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "model/gguf/gguf_metadata.h"
#include "tensor/dtype.h"

namespace tenon {

// The key/value part of a file under construction, in order. A key that is set again keeps its
// place and takes the new value.
class GgufMetadataBuilder {
 public:
  void SetString(std::string_view key, std::string_view value);
  void SetUint32(std::string_view key, uint32_t value);
  void SetUint16(std::string_view key, uint16_t value);
  void SetInt32(std::string_view key, int32_t value);
  void SetFloat32(std::string_view key, float value);
  void SetStrings(std::string_view key, const std::vector<std::string>& values);
  // An entry as another file holds it.
  void SetCopy(const GgufEntry& entry);
  void Remove(std::string_view key);

  uint64_t count() const { return entries_.size(); }
  // All entries, serialized.
  std::string Bytes() const;

 private:
  struct Entry {
    std::string key;
    std::string value;  // type and value, serialized
  };
  void Set(std::string_view key, std::string value);

  std::vector<Entry> entries_;
};

struct GgufTensorPlan {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first

  int64_t bytes() const;
};

class GgufWriter {
 public:
  static constexpr uint64_t kAlignment = 32;

  // Writes header, metadata and directory. Fails for a dtype without a number in GGUF.
  static Result<GgufWriter> Create(const std::filesystem::path& path,
                                   const GgufMetadataBuilder& metadata,
                                   std::vector<GgufTensorPlan> tensors);

  // The next tensor's bytes, whole. REQUIRES: as many as its plan says.
  Status WriteTensor(std::span<const std::byte> bytes);
  // The next bytes of the tensor that is being written, or of the next one. REQUIRES: no more than
  // its plan says.
  Status WritePart(std::span<const std::byte> bytes);

  // Makes the file durable under its name. REQUIRES: all tensors were written.
  Status Close();

 private:
  GgufWriter(FileWriter file, std::filesystem::path path, std::filesystem::path partial)
      : file_(std::move(file)), path_(std::move(path)), partial_(std::move(partial)) {}
  Status Pad();

  FileWriter file_;
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::vector<GgufTensorPlan> tensors_;
  size_t written_ = 0;      // tensors
  int64_t part_bytes_ = 0;  // of the tensor after them
};

}  // namespace tenon

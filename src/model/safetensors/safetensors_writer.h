// SafetensorsWriter: writes one safetensors file, tensor after tensor, values as they come.
//
// The header is written first, so every type and shape is planned before. The file grows beside its
// path and takes its name in Close. Memory: the header. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "model/safetensors/safetensors_reader.h"

namespace tenon {

struct SafetensorsPlan {
  std::string name;
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<int64_t> shape;  // outermost first

  uint64_t bytes() const;
};

class SafetensorsWriter {
 public:
  // Tensors are laid out in this order. Readers want values aligned: wider types come first.
  static Result<SafetensorsWriter> Create(const std::filesystem::path& path,
                                          const std::vector<SafetensorsPlan>& tensors);

  // The next bytes of the tensors, one after the other.
  Status Write(std::span<const std::byte> bytes);

  // Makes the file durable under its name. kInternal when bytes are missing.
  Status Close();

 private:
  SafetensorsWriter(FileWriter file, std::filesystem::path path, std::filesystem::path partial)
      : file_(std::move(file)), path_(std::move(path)), partial_(std::move(partial)) {}

  FileWriter file_;
  std::filesystem::path path_;
  std::filesystem::path partial_;
  uint64_t left_ = 0;  // bytes of tensors to come
};

}  // namespace tenon

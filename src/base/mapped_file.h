// MappedFile: a read-only file, mapped into memory and also readable at an offset.
//
// Owns the descriptor and the mapping. The size is taken once at Open; a file that is shortened
// afterwards by somebody else is outside the contract. Threading: const members from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace tenon {

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Copies out.size() bytes at `offset` by pread: their pages do not count as this process's
  // memory.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

  // Tells the system that the mapped range will not be read again soon, so that its pages leave
  // this process's memory. Reading it again is allowed. REQUIRES: the range is inside the file.
  void Release(uint64_t offset, uint64_t count) const;

 private:
  MappedFile() = default;
  void Close();

  std::filesystem::path path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tenon

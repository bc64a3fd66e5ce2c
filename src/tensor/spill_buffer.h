// SpillBuffer: an owner of bytes that need not all be in memory: a mapping of a file without a
// name.
//
// For what is larger than the memory that may be used. Its pages are the file system's: the kernel
// writes them out and takes them from the process when it must, Release gives them back at once.
// The file's room on the disk is reserved, so that writing to the bytes can't fail for lack of it;
// it ends with the object, also when the process is killed. Threading: as its bytes are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "base/result.h"

namespace tenon {

class SpillBuffer {
 public:
  // Zeroed bytes. `directory` should be on a disk: in a file system that lives in memory nothing
  // is won. kResourceExhausted when the file system has no room for them.
  static Result<SpillBuffer> Create(const std::filesystem::path& directory, size_t size);

  SpillBuffer(SpillBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SpillBuffer& operator=(SpillBuffer&& other) noexcept;
  SpillBuffer(const SpillBuffer&) = delete;
  SpillBuffer& operator=(const SpillBuffer&) = delete;
  ~SpillBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // The pages of this range leave the process's memory; their contents stay, and reading them
  // brings them back. REQUIRES: the range is inside.
  void Release(uint64_t offset, uint64_t count) const;

 private:
  SpillBuffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tenon

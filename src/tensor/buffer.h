// Buffer: an owner of zeroed, aligned bytes. Move-only. Threading: as its bytes are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"

namespace tenon {

class Buffer {
 public:
  // A cache line, which is also the widest vector and an AMX tile row.
  static constexpr size_t kAlignment = 64;

  // Anonymous pages from the system: they count as memory only when they are first written.
  // Fails with kResourceExhausted, saying how much was asked for.
  static Result<Buffer> Allocate(size_t size);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

  // The bytes at `offset` as elements of T. REQUIRES: inside the buffer and aligned for T.
  template <class T>
  T* As(size_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tenon

// ByteReader: little-endian reads from untrusted bytes; every read is checked against what is left.
//
// Owns nothing; the bytes must outlive it. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace tenon {

class ByteReader {
 public:
  // `name` is the file's name for messages.
  ByteReader(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  // Reads one number; `what` names it in the error.
  template <class T>
    requires std::is_arithmetic_v<T>
  Result<T> Read(std::string_view what) {
    TENON_ASSIGN_OR_RETURN(auto raw, ReadBytes(sizeof(T), what));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  // The next `count` bytes, not copied.
  Result<std::span<const std::byte>> ReadBytes(uint64_t count, std::string_view what);

  // "file: offset 123", for an error about what was read last.
  std::string Where() const;
  std::string WhereAt(size_t offset) const;

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  size_t offset_ = 0;
};

}  // namespace tenon

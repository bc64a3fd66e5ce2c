#include "base/byte_reader.h"

#include <fmt/format.h>

namespace tenon {

Result<std::span<const std::byte>> ByteReader::ReadBytes(uint64_t count, std::string_view what) {
  if (count > remaining()) {
    return Corrupt(
        fmt::format("truncated {}: {} bytes needed, {} left in the file", what, count, remaining()),
        Where());
  }
  auto taken = bytes_.subspan(offset_, static_cast<size_t>(count));
  offset_ += static_cast<size_t>(count);
  return taken;
}

std::string ByteReader::Where() const {
  return WhereAt(offset_);
}

std::string ByteReader::WhereAt(size_t offset) const {
  return fmt::format("{}: offset {}", name_, offset);
}

}  // namespace tenon

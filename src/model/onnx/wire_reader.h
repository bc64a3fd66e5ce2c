// WireReader: the fields of one protobuf message (the wire format of
// protobuf.dev/programming-guides /encoding), read from untrusted bytes without copying them.
//
// Owns nothing; the bytes must outlive it. Groups, which ONNX never used, are an error. Threading:
// one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t number_value = 0;         // kVarint, kFixed64, kFixed32: the bits
  std::span<const std::byte> bytes;  // kBytes
};

class WireReader {
 public:
  // `offset` is the place of the first byte in `file`, for messages.
  WireReader(std::span<const std::byte> bytes, size_t offset, const std::string* file)
      : bytes_(bytes), base_(offset), file_(file) {}

  bool AtEnd() const { return offset_ == bytes_.size(); }
  // REQUIRES: not at the end.
  Result<WireField> Next();

  // A reader of a field's bytes. REQUIRES: `field` came from this reader.
  WireReader Nested(const WireField& field) const;

  // The field as such; another wire type is an error.
  Result<std::string_view> Text(const WireField& field) const;
  Result<std::span<const std::byte>> Bytes(const WireField& field) const;
  Result<int64_t> Integer(const WireField& field) const;
  Result<float> Float(const WireField& field) const;

  // Appends the values of a repeated field, packed or not.
  Status AppendIntegers(const WireField& field, std::vector<int64_t>& out) const;
  Status AppendFloats(const WireField& field, std::vector<float>& out) const;
  Status AppendDoubles(const WireField& field, std::vector<double>& out) const;

  Error Wrong(std::string_view message) const;  // kCorrupt, with file and offset

 private:
  Result<uint64_t> Varint();
  Result<uint64_t> Fixed(size_t count);
  Error WrongType(const WireField& field, std::string_view expected) const;

  std::span<const std::byte> bytes_;
  size_t base_;
  const std::string* file_;
  size_t offset_ = 0;
};

}  // namespace tenon

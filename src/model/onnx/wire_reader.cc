#include "model/onnx/wire_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tenon {
namespace {

// A varint holds 7 bits in a byte: 64 bits need ten.
constexpr int kMostVarintBytes = 10;

}  // namespace

Error WireReader::Wrong(std::string_view message) const {
  return Corrupt(std::string(message), fmt::format("{}: offset {}", *file_, base_ + offset_));
}

Error WireReader::WrongType(const WireField& field, std::string_view expected) const {
  return Wrong(fmt::format("field {} has wire type {}, {} expected", field.number,
                           static_cast<int>(field.type), expected));
}

Result<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  for (int i = 0; i < kMostVarintBytes; ++i) {
    if (offset_ == bytes_.size())
      return Wrong("the message ends inside a number");
    const auto byte = static_cast<uint64_t>(bytes_[offset_++]);
    value |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80)
      return value;
  }
  return Wrong("a number of more than ten bytes");
}

Result<uint64_t> WireReader::Fixed(size_t count) {
  if (count > bytes_.size() - offset_)
    return Wrong("the message ends inside a number");
  uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + offset_, count);
  offset_ += count;
  return value;
}

Result<WireField> WireReader::Next() {
  TENON_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
  WireField field;
  const uint64_t number = tag >> 3;
  // The format's own limit of field numbers.
  if (number == 0 || number >= (1U << 29))
    return Wrong(fmt::format("field number {}", number));
  field.number = static_cast<uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint: {
      TENON_ASSIGN_OR_RETURN(field.number_value, Varint());
      return field;
    }
    case WireType::kFixed64: {
      TENON_ASSIGN_OR_RETURN(field.number_value, Fixed(8));
      return field;
    }
    case WireType::kFixed32: {
      TENON_ASSIGN_OR_RETURN(field.number_value, Fixed(4));
      return field;
    }
    case WireType::kBytes: {
      TENON_ASSIGN_OR_RETURN(const uint64_t length, Varint());
      if (length > bytes_.size() - offset_) {
        return Wrong(fmt::format("field {} has {} bytes, only {} are left", field.number, length,
                                 bytes_.size() - offset_));
      }
      field.bytes = bytes_.subspan(offset_, length);
      offset_ += length;
      return field;
    }
  }
  return Wrong(fmt::format("field {} has wire type {}", field.number, tag & 7));
}

WireReader WireReader::Nested(const WireField& field) const {
  const auto start =
      field.bytes.empty() ? offset_ : static_cast<size_t>(field.bytes.data() - bytes_.data());
  return {field.bytes, base_ + start, file_};
}

Result<std::string_view> WireReader::Text(const WireField& field) const {
  if (field.type != WireType::kBytes)
    return WrongType(field, "a text");
  return std::string_view(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
}

Result<std::span<const std::byte>> WireReader::Bytes(const WireField& field) const {
  if (field.type != WireType::kBytes)
    return WrongType(field, "bytes");
  return field.bytes;
}

Result<int64_t> WireReader::Integer(const WireField& field) const {
  if (field.type != WireType::kVarint)
    return WrongType(field, "an integer");
  return static_cast<int64_t>(field.number_value);
}

Result<float> WireReader::Float(const WireField& field) const {
  if (field.type != WireType::kFixed32)
    return WrongType(field, "a float");
  return std::bit_cast<float>(static_cast<uint32_t>(field.number_value));
}

Status WireReader::AppendIntegers(const WireField& field, std::vector<int64_t>& out) const {
  if (field.type == WireType::kVarint) {
    out.push_back(static_cast<int64_t>(field.number_value));
    return {};
  }
  if (field.type != WireType::kBytes)
    return WrongType(field, "integers");
  WireReader packed = Nested(field);
  while (!packed.AtEnd()) {
    TENON_ASSIGN_OR_RETURN(const uint64_t value, packed.Varint());
    out.push_back(static_cast<int64_t>(value));
  }
  return {};
}

Status WireReader::AppendFloats(const WireField& field, std::vector<float>& out) const {
  if (field.type == WireType::kFixed32) {
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(field.number_value)));
    return {};
  }
  if (field.type != WireType::kBytes || field.bytes.size() % sizeof(float) != 0)
    return WrongType(field, "floats");
  const size_t old = out.size();
  out.resize(old + field.bytes.size() / sizeof(float));
  if (!field.bytes.empty())
    std::memcpy(out.data() + old, field.bytes.data(), field.bytes.size());
  return {};
}

Status WireReader::AppendDoubles(const WireField& field, std::vector<double>& out) const {
  if (field.type == WireType::kFixed64) {
    out.push_back(std::bit_cast<double>(field.number_value));
    return {};
  }
  if (field.type != WireType::kBytes || field.bytes.size() % sizeof(double) != 0)
    return WrongType(field, "doubles");
  const size_t old = out.size();
  out.resize(old + field.bytes.size() / sizeof(double));
  if (!field.bytes.empty())
    std::memcpy(out.data() + old, field.bytes.data(), field.bytes.size());
  return {};
}

}  // namespace tenon

#include "model/gguf/gguf_metadata.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace tenon {
namespace {

template <class T>
T Load(std::span<const std::byte> bytes) {
  T value;
  TENON_CHECK(bytes.size() >= sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// "u32", or "array of u32".
std::string DescribeType(const GgufValue& value) {
  if (value.type == GgufType::kArray)
    return fmt::format("array of {} {}", value.count, GgufTypeName(value.element));
  return std::string(GgufTypeName(value.type));
}

}  // namespace

std::string_view GgufTypeName(GgufType type) {
  static constexpr std::string_view kNames[] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                "i32", "f32", "bool", "string", "array",
                                                "u64", "i64", "f64"};
  const auto number = static_cast<size_t>(type);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

size_t GgufScalarBytes(GgufType type) {
  static constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto number = static_cast<size_t>(type);
  return number < std::size(kBytes) ? kBytes[number] : 0;
}

std::optional<int64_t> AsInteger(const GgufValue& value) {
  switch (value.type) {
    case GgufType::kUint8:
      return Load<uint8_t>(value.bytes);
    case GgufType::kInt8:
      return Load<int8_t>(value.bytes);
    case GgufType::kUint16:
      return Load<uint16_t>(value.bytes);
    case GgufType::kInt16:
      return Load<int16_t>(value.bytes);
    case GgufType::kUint32:
      return Load<uint32_t>(value.bytes);
    case GgufType::kInt32:
      return Load<int32_t>(value.bytes);
    case GgufType::kInt64:
      return Load<int64_t>(value.bytes);
    case GgufType::kUint64: {
      const auto number = Load<uint64_t>(value.bytes);
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return std::nullopt;
      return static_cast<int64_t>(number);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> AsFloat(const GgufValue& value) {
  if (value.type == GgufType::kFloat32)
    return Load<float>(value.bytes);
  if (value.type == GgufType::kFloat64)
    return Load<double>(value.bytes);
  return std::nullopt;
}

GgufValue ArrayElement(const GgufValue& array, uint64_t i) {
  const size_t size = GgufScalarBytes(array.element);
  TENON_CHECK(array.type == GgufType::kArray && size > 0 && i < array.count);
  GgufValue element;
  element.type = array.element;
  element.bytes = array.bytes.subspan(i * size, size);
  return element;
}

std::vector<std::string_view> ArrayStrings(const GgufValue& array) {
  TENON_CHECK(array.type == GgufType::kArray && array.element == GgufType::kString);
  std::vector<std::string_view> strings;
  strings.reserve(array.count);
  std::span<const std::byte> rest = array.bytes;
  for (uint64_t i = 0; i < array.count; ++i) {
    const auto length = Load<uint64_t>(rest);
    rest = rest.subspan(sizeof(length));
    strings.emplace_back(reinterpret_cast<const char*>(rest.data()), length);
    rest = rest.subspan(length);
  }
  return strings;
}

bool GgufMetadata::Add(std::string_view key, const GgufValue& value) {
  if (!index_.emplace(key, entries_.size()).second)
    return false;
  entries_.push_back({key, value});
  return true;
}

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

Error GgufMetadata::ErrorAt(std::string_view key, std::string_view message) const {
  return Corrupt(std::string(message), fmt::format("{}: {}", name_, key));
}

Error GgufMetadata::WrongType(std::string_view key, const GgufValue& value,
                              std::string_view expected) const {
  return ErrorAt(key, fmt::format("{} found, {} expected", DescribeType(value), expected));
}

Result<std::optional<int64_t>> GgufMetadata::Integer(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr)
    return std::optional<int64_t>();
  const std::optional<int64_t> number = AsInteger(*value);
  if (!number)
    return WrongType(key, *value, "an integer below 2^63");
  return number;
}

Result<std::optional<double>> GgufMetadata::Float(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr)
    return std::optional<double>();
  const std::optional<double> number = AsFloat(*value);
  if (!number)
    return WrongType(key, *value, "f32 or f64");
  if (!std::isfinite(*number))
    return ErrorAt(key, fmt::format("{} found, a finite number expected", *number));
  return number;
}

Result<std::optional<bool>> GgufMetadata::Bool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr)
    return std::optional<bool>();
  if (value->type != GgufType::kBool)
    return WrongType(key, *value, "bool");
  return std::optional<bool>(Load<uint8_t>(value->bytes) != 0);
}

Result<std::optional<std::string_view>> GgufMetadata::String(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr)
    return std::optional<std::string_view>();
  if (value->type != GgufType::kString)
    return WrongType(key, *value, "string");
  if (value->bytes.size() > kGgufLongestText) {
    return ErrorAt(key, fmt::format("a string of {} bytes found, at most {} expected",
                                    value->bytes.size(), kGgufLongestText));
  }
  return std::optional<std::string_view>(value->text());
}

Result<std::optional<GgufValue>> GgufMetadata::Array(std::string_view key, GgufType element) const {
  const GgufValue* value = Find(key);
  if (value == nullptr)
    return std::optional<GgufValue>();
  if (value->type != GgufType::kArray || value->element != element)
    return WrongType(key, *value, fmt::format("array of {}", GgufTypeName(element)));
  return std::optional<GgufValue>(*value);
}

}  // namespace tenon

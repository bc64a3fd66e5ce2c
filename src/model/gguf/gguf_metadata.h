// GgufMetadata: the key/value part of a GGUF file, and typed look-ups in it.
//
// Owns an index only: keys and values are views into the file's bytes, which must outlive it. All
// values were walked when the file was parsed, so that their lengths hold. Threading: const after
// parsing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tenon {

// Of a string that is looked up by its key. Published chat templates have up to some 20 KB.
inline constexpr size_t kGgufLongestText = 1 << 20;

// Numbers as in the file.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Such as "u32", "string"; "unknown" for a number outside the enum.
std::string_view GgufTypeName(GgufType type);

// Bytes of a number or bool; 0 for strings, arrays and unknown types.
size_t GgufScalarBytes(GgufType type);

struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element = GgufType::kUint8;  // arrays only
  uint64_t count = 0;                   // elements, arrays only
  // A scalar's bytes, a string's characters, or an array's elements one after the other (a string
  // with its 8-byte length in front, a nested array with its 12-byte head).
  std::span<const std::byte> bytes;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// The number in a scalar of an integer or float type, or none if `value` is of another type (or
// does not fit).
std::optional<int64_t> AsInteger(const GgufValue& value);
std::optional<double> AsFloat(const GgufValue& value);

// Element i of an array of numbers or bools. REQUIRES: i < array.count, such an array.
GgufValue ArrayElement(const GgufValue& array, uint64_t i);

// The elements of an array of strings. REQUIRES: such an array.
std::vector<std::string_view> ArrayStrings(const GgufValue& array);

// For people: control characters escaped, long strings and arrays cut with their length.
std::string PrintGgufValue(const GgufValue& value);

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

class GgufMetadata {
 public:
  // `name` is the file's name for messages.
  explicit GgufMetadata(std::string name) : name_(std::move(name)) {}

  // False if the key is there already.
  bool Add(std::string_view key, const GgufValue& value);

  const std::vector<GgufEntry>& entries() const { return entries_; }
  // Null when there is no such key.
  const GgufValue* Find(std::string_view key) const;

  // None when there is no such key; an error that names the key when its value is of another type.
  Result<std::optional<int64_t>> Integer(std::string_view key) const;
  Result<std::optional<double>> Float(std::string_view key) const;  // finite
  Result<std::optional<bool>> Bool(std::string_view key) const;
  Result<std::optional<std::string_view>> String(std::string_view key) const;  // bounded
  Result<std::optional<GgufValue>> Array(std::string_view key, GgufType element) const;

  // kCorrupt, naming the file and the key.
  Error ErrorAt(std::string_view key, std::string_view message) const;
  const std::string& name() const { return name_; }

 private:
  Error WrongType(std::string_view key, const GgufValue& value, std::string_view expected) const;

  std::string name_;
  std::vector<GgufEntry> entries_;  // in file order
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace tenon

#include "model/gguf/gguf_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace tenon {
namespace {

// Sizes below 2^31 make every product of two of them fit 62 bits.
constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();

}  // namespace

std::string GgufFields::Key(std::string_view key) const {
  return fmt::format("{}.{}", architecture_, key);
}

Error GgufFields::Wrong(std::string_view key, std::string_view message) const {
  return metadata_.ErrorAt(Key(key), message);
}

Result<int64_t> GgufFields::EqualElements(std::string_view key, const GgufValue& array) const {
  if (array.count == 0 || GgufScalarBytes(array.element) == 0)
    return Wrong(key, "an array of integers, one a layer, expected");
  std::optional<int64_t> first = AsInteger(ArrayElement(array, 0));
  if (!first)
    return Wrong(key, "an array of integers, one a layer, expected");
  for (uint64_t i = 1; i < array.count; ++i) {
    if (const std::optional<int64_t> other = AsInteger(ArrayElement(array, i)); other != first) {
      Error error = Wrong(key, fmt::format("layer 0 has {}, layer {} has {}: layers that differ "
                                           "in it are not supported",
                                           *first, i, other.value_or(0)));
      error.code = ErrorCode::kUnsupported;
      return error;
    }
  }
  return *first;
}

Result<std::optional<int64_t>> GgufFields::Size(std::string_view key) const {
  const std::string whole = Key(key);
  const GgufValue* value = metadata_.Find(whole);
  std::optional<int64_t> size;
  if (value != nullptr && value->type == GgufType::kArray) {
    TENON_ASSIGN_OR_RETURN(size, EqualElements(key, *value));
  } else {
    TENON_ASSIGN_OR_RETURN(size, metadata_.Integer(whole));
  }
  if (size && (*size < 0 || *size > kLargestSize))
    return Wrong(key, fmt::format("{} found, 1 to 2^31-1 expected", *size));
  return size;
}

Status GgufFields::Mandatory(std::string_view key, int64_t& out) const {
  TENON_ASSIGN_OR_RETURN(const auto size, Size(key));
  if (!size)
    return Wrong(key, "missing");
  if (*size == 0)
    return Wrong(key, "0 found, 1 to 2^31-1 expected");
  out = *size;
  return {};
}

Status GgufFields::Optional(std::string_view key, int64_t& out) const {
  TENON_ASSIGN_OR_RETURN(const auto size, Size(key));
  if (size && *size > 0)
    out = *size;
  return {};
}

Status GgufFields::Mandatory(std::string_view key, float& out) const {
  if (metadata_.Find(Key(key)) == nullptr)
    return Wrong(key, "missing");
  out = 0.0F;
  TENON_RETURN_IF_ERROR(Optional(key, out));
  if (out == 0.0F)
    return Wrong(key, "0 found, a number above 0 expected");
  return {};
}

Status GgufFields::Optional(std::string_view key, float& out) const {
  TENON_ASSIGN_OR_RETURN(const auto number, metadata_.Float(Key(key)));
  if (!number)
    return {};
  if (*number < 0.0 || *number > double{std::numeric_limits<float>::max()})
    return Wrong(key, fmt::format("{} found, a float above 0 expected", *number));
  if (static_cast<float>(*number) > 0.0F)
    out = static_cast<float>(*number);
  return {};
}

Result<std::optional<bool>> GgufFields::Flag(std::string_view key) const {
  return metadata_.Bool(Key(key));
}

Result<std::string> GgufFields::Text(std::string_view key, std::string_view otherwise) const {
  TENON_ASSIGN_OR_RETURN(const auto text, metadata_.String(Key(key)));
  return std::string(text.value_or(otherwise));
}

}  // namespace tenon

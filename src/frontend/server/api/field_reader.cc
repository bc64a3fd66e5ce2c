#include "frontend/server/api/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

// More fields than any API has; keeps the search for names short.
constexpr size_t kMaxFields = 256;

}  // namespace

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  const std::string where = path_.empty() ? "body" : path_;
  if (!object.is_object())
    status_ =
        InvalidArgument(fmt::format("found {}, expected an object", JsonTypeName(object)), where);
  else if (object.size() > kMaxFields)
    status_ = InvalidArgument(
        fmt::format("{} fields, at most {} are known", object.size(), kMaxFields), where);
}

std::string FieldReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void FieldReader::Fail(std::string_view name, std::string message, ErrorCode code) {
  if (status_.ok())
    status_ = MakeError(code, std::move(message), PathOf(name));
}

void FieldReader::Take(Status status) {
  if (status_.ok() && !status.ok())
    status_ = std::move(status);
}

const Json* FieldReader::Find(std::string_view name) {
  known_.push_back(name);
  return status_.ok() ? FindField(object_, name) : nullptr;
}

void FieldReader::WrongType(std::string_view name, std::string_view expected, const Json& found) {
  Fail(name, fmt::format("found {}, expected {}", JsonTypeName(found), expected));
}

void FieldReader::Bool(std::string_view name, bool& value) {
  const Json* field = Find(name);
  if (field == nullptr)
    return;
  if (field->is_boolean())
    value = field->get<bool>();
  else
    WrongType(name, "a boolean", *field);
}

void FieldReader::Int(std::string_view name, int64_t& value, IntRange range) {
  const Json* field = Find(name);
  if (field == nullptr)
    return;
  if (!field->is_number_integer())
    return WrongType(name, "an integer", *field);
  const bool too_big =
      field->is_number_unsigned() &&
      field->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t found = too_big ? std::numeric_limits<int64_t>::max() : field->get<int64_t>();
  if (too_big || found < range.low || found > range.high) {
    return Fail(name, fmt::format("found {}, expected an integer from {} to {}", DumpJson(*field),
                                  range.low, range.high));
  }
  value = found;
}

void FieldReader::Int(std::string_view name, int32_t& value, IntRange range) {
  int64_t wide = value;
  Int(name, wide, range);
  value = static_cast<int32_t>(wide);
}

void FieldReader::Float(std::string_view name, float& value) {
  const Json* field = Find(name);
  if (field == nullptr)
    return;
  auto number = ReadFloat(*field, PathOf(name));
  if (number.ok())
    value = *number;
  else
    Take(std::move(number).error());
}

void FieldReader::String(std::string_view name, std::string& value) {
  const Json* field = Find(name);
  if (field == nullptr)
    return;
  if (field->is_string())
    value = field->get<std::string>();
  else
    WrongType(name, "a string", *field);
}

void FieldReader::Strings(std::string_view name, std::vector<std::string>& value) {
  const Json* field = Find(name);
  if (field == nullptr)
    return;
  if (field->is_string()) {
    value = {field->get<std::string>()};
    return;
  }
  if (!field->is_array())
    return WrongType(name, "a string or an array of strings", *field);
  value.clear();
  for (size_t i = 0; i < field->size(); ++i) {
    const Json& element = (*field)[i];
    if (!element.is_string())
      return WrongType(fmt::format("{}[{}]", name, i), "a string", element);
    value.push_back(element.get<std::string>());
  }
}

void FieldReader::Tokens(std::string_view name, std::vector<int32_t>& value) {
  const Json* field = Find(name);
  if (field == nullptr)
    return;
  auto tokens = ReadTokens(*field, PathOf(name));
  if (tokens.ok())
    value = std::move(*tokens);
  else
    Take(std::move(tokens).error());
}

const Json* FieldReader::Any(std::string_view name) {
  return Find(name);
}

const Json* FieldReader::Object(std::string_view name) {
  const Json* field = Find(name);
  if (field == nullptr || field->is_object())
    return field;
  WrongType(name, "an object", *field);
  return nullptr;
}

const Json* FieldReader::Array(std::string_view name) {
  const Json* field = Find(name);
  if (field == nullptr || field->is_array())
    return field;
  WrongType(name, "an array", *field);
  return nullptr;
}

const Json* FieldReader::Required(std::string_view name) {
  const Json* field = Find(name);
  if (field == nullptr)
    Fail(name, "is missing");
  return field;
}

void FieldReader::Ignore(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void FieldReader::Refuse(std::string_view name, std::string_view reason,
                         std::initializer_list<Json> neutral) {
  const Json* field = Find(name);
  if (field == nullptr || std::ranges::find(neutral, *field) != neutral.end())
    return;
  Fail(name, fmt::format("is not supported: {}", reason), ErrorCode::kUnsupported);
}

Status FieldReader::Finish() {
  if (!status_.ok())
    return status_;
  for (const auto& [key, value] : object_.get_ref<const Json::object_t&>()) {
    if (std::ranges::find(known_, std::string_view(key)) == known_.end())
      Fail(key, "is not a known field");
  }
  return status_;
}

Result<float> ReadFloat(const Json& value, const std::string& path) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!value.is_number())
    return InvalidArgument(fmt::format("found {}, expected a number", JsonTypeName(value)), path);
  const auto number = value.get<double>();
  if (!(std::abs(number) <= kLargest)) {
    return InvalidArgument(fmt::format("found {}, expected a number from {:.1e} to {:.1e}",
                                       DumpJson(value), -kLargest, kLargest),
                           path);
  }
  return static_cast<float>(number);
}

Result<int32_t> ReadToken(const Json& value, const std::string& path) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  if (!value.is_number_integer() || value < 0 || value > kLargest)
    return InvalidArgument(fmt::format("found {}, expected a token id", DumpJson(value)), path);
  return value.get<int32_t>();
}

Result<std::vector<int32_t>> ReadTokens(const Json& array, std::string_view path) {
  if (!array.is_array()) {
    return InvalidArgument(
        fmt::format("found {}, expected an array of token ids", JsonTypeName(array)),
        std::string(path));
  }
  std::vector<int32_t> tokens;
  tokens.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const int32_t token,
                           ReadToken(array[i], fmt::format("{}[{}]", path, i)));
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace tenon

#include "model/json/json_document.h"

#include <fmt/format.h>

namespace tenon {
namespace {

// Integers of fewer digits fit 64 bits.
constexpr size_t kSafeDigits = 18;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Where the string that starts at `at` (a quote) ends, behind its closing quote.
size_t StringEnd(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\')
      ++at;
  }
  return std::min(at + 1, text.size());
}

// Copies the number at `at`, an integer that is too long with ".0" behind it.
size_t CopyNumber(std::string_view text, size_t at, std::string& out) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end]))
    ++end;
  out.append(text, at, end - at);
  const bool integer = end == text.size() || (text[end] != '.' && (text[end] | 0x20) != 'e');
  if (integer && end - at > kSafeDigits)
    out += ".0";
  // The fraction and the exponent are digits too, of any length.
  while (!integer && end < text.size() &&
         (IsDigit(text[end]) || text.substr(end, 1).find_first_of(".eE+-") == 0))
    out += text[end++];
  return end;
}

std::string_view TypeName(simdjson::dom::element element) {
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "true or false";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

}  // namespace

std::string StrictJson(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const size_t end = StringEnd(text, at);
      out.append(text, at, end - at);
      at = end;
    } else if (IsDigit(text[at])) {
      at = CopyNumber(text, at, out);
    } else if (text.substr(at, 3) == "NaN") {
      out += "null";
      at += 3;
    } else if (text.substr(at, 8) == "Infinity" || text.substr(at, 9) == "-Infinity") {
      out += "null";
      at += text[at] == '-' ? 9 : 8;
    } else {
      out += text[at++];
    }
  }
  return out;
}

Result<JsonDocument> JsonDocument::Parse(std::string_view text, std::string file,
                                         JsonDialect dialect) {
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  document.file_ = std::make_unique<std::string>(std::move(file));
  const std::string strict = dialect == JsonDialect::kPython ? StrictJson(text) : std::string();
  const simdjson::padded_string padded(dialect == JsonDialect::kPython ? strict : text);
  if (const auto code = document.parser_->parse(padded).get(document.root_))
    return Corrupt(fmt::format("not JSON: {}", simdjson::error_message(code)), *document.file_);
  return document;
}

std::string JsonValue::Where() const {
  return path_.empty() ? *file_ : fmt::format("{}: {}", *file_, path_);
}

Error JsonValue::Wrong(std::string_view message) const {
  return Corrupt(std::string(message), Where());
}

Error JsonValue::NotSupported(std::string_view message) const {
  return Unsupported(std::string(message), Where());
}

JsonValue JsonValue::Member(std::string_view key, simdjson::dom::element element) const {
  return {element, file_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

JsonValue JsonValue::Item(size_t index, simdjson::dom::element element) const {
  return {element, file_, fmt::format("{}[{}]", path_, index)};
}

std::optional<JsonValue> JsonValue::Find(std::string_view key) const {
  simdjson::dom::element found;
  if (!IsObject() || element_.at_key(key).get(found) != simdjson::SUCCESS || found.is_null())
    return std::nullopt;
  return Member(key, found);
}

Result<JsonValue> JsonValue::At(std::string_view key) const {
  if (!IsObject())
    return Wrong(fmt::format("{} found, an object expected", TypeName(element_)));
  auto found = Find(key);
  if (!found)
    return Member(key, element_).Wrong("missing");
  return *std::move(found);
}

Result<std::string_view> JsonValue::String() const {
  std::string_view text;
  if (element_.get_string().get(text) != simdjson::SUCCESS)
    return Wrong(fmt::format("{} found, a string expected", TypeName(element_)));
  return text;
}

Result<int64_t> JsonValue::Integer() const {
  int64_t value = 0;
  if (element_.get_int64().get(value) == simdjson::SUCCESS)
    return value;
  double number = 0.0;
  // 2048.0 is an integer too; 2^53 is where floats begin to skip some.
  if (element_.is_double() && element_.get_double().get(number) == simdjson::SUCCESS &&
      number >= -9007199254740992.0 && number <= 9007199254740992.0 &&
      number == static_cast<double>(static_cast<int64_t>(number)))
    return static_cast<int64_t>(number);
  return Wrong(fmt::format("{} found, an integer expected", TypeName(element_)));
}

Result<double> JsonValue::Number() const {
  double number = 0.0;
  if (element_.get_double().get(number) != simdjson::SUCCESS)
    return Wrong(fmt::format("{} found, a number expected", TypeName(element_)));
  return number;
}

Result<bool> JsonValue::Bool() const {
  bool value = false;
  if (element_.get_bool().get(value) != simdjson::SUCCESS)
    return Wrong(fmt::format("{} found, true or false expected", TypeName(element_)));
  return value;
}

Result<simdjson::dom::object> JsonValue::Object() const {
  simdjson::dom::object object;
  if (element_.get_object().get(object) != simdjson::SUCCESS)
    return Wrong(fmt::format("{} found, an object expected", TypeName(element_)));
  return object;
}

Result<simdjson::dom::array> JsonValue::Array() const {
  simdjson::dom::array array;
  if (element_.get_array().get(array) != simdjson::SUCCESS)
    return Wrong(fmt::format("{} found, an array expected", TypeName(element_)));
  return array;
}

Result<std::string> JsonValue::StringOr(std::string_view key, std::string_view otherwise) const {
  const auto found = Find(key);
  if (!found)
    return std::string(otherwise);
  TENON_ASSIGN_OR_RETURN(const std::string_view text, found->String());
  return std::string(text);
}

Result<int64_t> JsonValue::IntegerOr(std::string_view key, int64_t otherwise) const {
  const auto found = Find(key);
  return found ? found->Integer() : Result<int64_t>(otherwise);
}

Result<double> JsonValue::NumberOr(std::string_view key, double otherwise) const {
  const auto found = Find(key);
  return found ? found->Number() : Result<double>(otherwise);
}

}  // namespace tenon

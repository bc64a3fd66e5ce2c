// JsonDocument: a parsed JSON file, and values in it that name themselves in errors.
//
// For files that may be large (vocabularies) and whose keys may repeat; keys stay in file order.
// All of it is untrusted. Threading: const after Parse; any thread.
#pragma once

#include <simdjson.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tenon {

enum class JsonDialect : uint8_t {
  kStrict,  // RFC 8259
  kPython,  // what Python's json module writes too: NaN, Infinity (both read as null), and integers
            // of any length (read as floats)
};

// A value with its place. Borrows the document.
class JsonValue {
 public:
  JsonValue(simdjson::dom::element element, const std::string* file, std::string path)
      : element_(element), file_(file), path_(std::move(path)) {}

  bool IsNull() const { return element_.is_null(); }
  bool IsObject() const { return element_.is_object(); }
  bool IsArray() const { return element_.is_array(); }
  bool IsString() const { return element_.is_string(); }

  // The member `key`; none when it is missing, null, or this is no object.
  std::optional<JsonValue> Find(std::string_view key) const;
  // The same; missing or null is an error.
  Result<JsonValue> At(std::string_view key) const;

  // The value as such; another type is an error that names the place.
  Result<std::string_view> String() const;
  Result<int64_t> Integer() const;
  Result<double> Number() const;
  Result<bool> Bool() const;
  Result<simdjson::dom::object> Object() const;
  Result<simdjson::dom::array> Array() const;

  // Member `key` as such, or `otherwise` when it is missing or null.
  Result<std::string> StringOr(std::string_view key, std::string_view otherwise) const;
  Result<int64_t> IntegerOr(std::string_view key, int64_t otherwise) const;
  Result<double> NumberOr(std::string_view key, double otherwise) const;
  template <std::same_as<bool> T>
  Result<T> BoolOr(std::string_view key, T otherwise) const {
    const auto found = Find(key);
    return found ? found->Bool() : Result<T>(otherwise);
  }

  // A value below this one, found by iterating.
  JsonValue Member(std::string_view key, simdjson::dom::element element) const;
  JsonValue Item(size_t index, simdjson::dom::element element) const;

  simdjson::dom::element element() const { return element_; }
  // "config.json: rope_scaling.factor".
  std::string Where() const;
  Error Wrong(std::string_view message) const;  // kCorrupt
  Error NotSupported(std::string_view message) const;

 private:
  simdjson::dom::element element_;
  const std::string* file_;
  std::string path_;
};

class JsonDocument {
 public:
  // `file` is the file's name for messages.
  static Result<JsonDocument> Parse(std::string_view text, std::string file,
                                    JsonDialect dialect = JsonDialect::kStrict);

  JsonValue root() const { return {root_, file_.get(), std::string()}; }

 private:
  JsonDocument() = default;

  std::unique_ptr<simdjson::dom::parser> parser_;  // owns the values
  std::unique_ptr<std::string> file_;
  simdjson::dom::element root_;
};

// Text in Python's dialect as strict JSON.
std::string StrictJson(std::string_view text);

}  // namespace tenon

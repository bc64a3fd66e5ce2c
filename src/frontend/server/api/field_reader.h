// FieldReader: the fields of one JSON object, taken by name with strict types.
//
// A field that is absent or null leaves the value as it was: the default. The first thing that is
// wrong stays as the error, with the field's name, and later calls do nothing. Finish refuses every
// field that nobody asked for, so that nothing is ignored in silence. Threading: one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/server/api/json.h"

namespace tenon {

struct IntRange {
  int64_t low;
  int64_t high;
};

class FieldReader {
 public:
  // `object` must outlive the reader. `path` comes before the names: "messages[0]" gives
  // "messages[0].role".
  explicit FieldReader(const Json& object, std::string path = {});

  void Bool(std::string_view name, bool& value);
  void Int(std::string_view name, int64_t& value, IntRange range);
  void Int(std::string_view name, int32_t& value, IntRange range);
  void Float(std::string_view name, float& value);
  void String(std::string_view name, std::string& value);
  // A string, or an array of strings.
  void Strings(std::string_view name, std::vector<std::string>& value);
  void Tokens(std::string_view name, std::vector<int32_t>& value);
  // The value as it stands; null when absent or null.
  const Json* Any(std::string_view name);
  const Json* Object(std::string_view name);
  const Json* Array(std::string_view name);
  // The same, but absent is an error.
  const Json* Required(std::string_view name);

  // Fields that change nothing in the answer.
  void Ignore(std::initializer_list<std::string_view> names);
  // A field that only means something we can't do, unless its value is one of `neutral` (null
  // always is).
  void Refuse(std::string_view name, std::string_view reason,
              std::initializer_list<Json> neutral = {});

  void Fail(std::string_view name, std::string message, ErrorCode code);
  void Fail(std::string_view name, std::string message) {
    Fail(name, std::move(message), ErrorCode::kInvalidArgument);
  }
  void Take(Status status);

  bool ok() const { return status_.ok(); }
  std::string PathOf(std::string_view name) const;
  // The first error, or the first unknown field.
  Status Finish();

 private:
  const Json* Find(std::string_view name);
  void WrongType(std::string_view name, std::string_view expected, const Json& found);

  const Json& object_;
  std::string path_;
  std::vector<std::string_view> known_;
  Status status_;
};

// A number that single precision can hold; `path` is its place, for the error.
Result<float> ReadFloat(const Json& value, const std::string& path);
// A token id; `path` is its place, for the error.
Result<int32_t> ReadToken(const Json& value, const std::string& path);
// Token ids from a JSON array; the error names the place.
Result<std::vector<int32_t>> ReadTokens(const Json& array, std::string_view path);

}  // namespace tenon

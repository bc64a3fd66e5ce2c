// Two JSON schemas as one that asks for both. Threading: any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tenon {

using Schema = nlohmann::ordered_json;

// What a keyword is to the compiler.
enum class KeywordRole : uint8_t { kUnknown, kConstraint, kAnnotation };
KeywordRole RoleOf(std::string_view keyword);

// Fails with kUnsupported, naming the keyword, where two values of it have no common form.
// `a` is changed where it stands, so that putting n schemas together does not copy n times.
Result<Schema> MergeSchemas(Schema a, const Schema& b, const std::string& path);

// True when no value satisfies both, as far as types, enum, const and required members show.
// `resolve` follows a $ref.
template <class Resolve>
bool Exclude(const Schema& a, const Schema& b, const Resolve& resolve, int depth = 0);

// The types that a schema's type, enum and const leave: bits in the order of kSchemaTypes.
inline constexpr std::string_view kSchemaTypes[] = {"string", "number", "integer", "boolean",
                                                    "null",   "object", "array"};
uint32_t TypesOf(const Schema& schema);
// The values of enum or const; null when there are none.
Schema ValuesOf(const Schema& schema);

template <class Resolve>
bool Exclude(const Schema& a, const Schema& b, const Resolve& resolve, int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth || !a.is_object() || !b.is_object())
    return a == false || b == false;
  if (a.contains("$ref"))
    return Exclude(resolve(a), b, resolve, depth + 1);
  if (b.contains("$ref"))
    return Exclude(a, resolve(b), resolve, depth + 1);
  if ((TypesOf(a) & TypesOf(b)) == 0)
    return true;
  const Schema a_values = ValuesOf(a);
  const Schema b_values = ValuesOf(b);
  if (!a_values.is_null() && !b_values.is_null()) {
    for (const Schema& value : a_values) {
      if (std::find(b_values.begin(), b_values.end(), value) != b_values.end())
        return false;
    }
    return true;
  }
  // A member that one of them demands, and that can't be both. Only the first ones are looked at.
  constexpr size_t kMaxNames = 64;
  for (const auto* side : {&a, &b}) {
    const auto required = side->find("required");
    if (required == side->end() || TypesOf(a) != TypesOf(b) || !a.contains("properties") ||
        !b.contains("properties") || !a["properties"].is_object() || !b["properties"].is_object())
      continue;
    size_t names = 0;
    for (const Schema& name : *required) {
      if (!name.is_string() || ++names > kMaxNames)
        continue;
      const auto in_a = a["properties"].find(name.get<std::string>());
      const auto in_b = b["properties"].find(name.get<std::string>());
      if (in_a != a["properties"].end() && in_b != b["properties"].end() &&
          Exclude(*in_a, *in_b, resolve, depth + 1))
        return true;
    }
  }
  return false;
}

}  // namespace tenon

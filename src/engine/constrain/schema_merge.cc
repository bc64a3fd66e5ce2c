#include "engine/constrain/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tenon {
namespace {

constexpr std::array kConstraints = {"type",
                                     "enum",
                                     "const",
                                     "properties",
                                     "required",
                                     "items",
                                     "prefixItems",
                                     "minItems",
                                     "additionalProperties",
                                     "maxItems",
                                     "minLength",
                                     "maxLength",
                                     "pattern",
                                     "format",
                                     "minimum",
                                     "maximum",
                                     "exclusiveMinimum",
                                     "exclusiveMaximum",
                                     "multipleOf",
                                     "anyOf",
                                     "oneOf",
                                     "allOf",
                                     "$ref",
                                     "minProperties",
                                     "maxProperties",
                                     "uniqueItems",
                                     "additionalItems"};
constexpr std::array kAnnotations = {
    "title",     "description",      "default",         "examples",    "example",    "$schema",
    "$id",       "$comment",         "$defs",           "definitions", "deprecated", "readOnly",
    "writeOnly", "contentMediaType", "contentEncoding", "$anchor",     "strict"};

template <class List>
bool Has(const List& list, std::string_view keyword) {
  return std::ranges::find(list, keyword) != list.end();
}

constexpr uint32_t kAllTypes = (1U << std::size(kSchemaTypes)) - 1;
constexpr uint32_t kNumber = 1U << 1;
constexpr uint32_t kInteger = 1U << 2;

uint32_t TypeBit(std::string_view name) {
  for (size_t i = 0; i < std::size(kSchemaTypes); ++i) {
    // Every integer is a number.
    if (kSchemaTypes[i] == name)
      return (1U << i) | (name == "number" ? kInteger : 0);
  }
  return 0;
}

uint32_t TypeBitOf(const Schema& value) {
  if (value.is_string())
    return TypeBit("string");
  if (value.is_number_integer())
    return kInteger;
  if (value.is_number())
    return kNumber;
  if (value.is_boolean())
    return TypeBit("boolean");
  if (value.is_object())
    return TypeBit("object");
  return TypeBit(value.is_array() ? "array" : "null");
}

Schema TypesToJson(uint32_t types) {
  Schema list = Schema::array();
  for (size_t i = 0; i < std::size(kSchemaTypes); ++i) {
    const bool is_covered = kSchemaTypes[i] == "integer" && (types & kNumber) != 0;
    if ((types >> i & 1) != 0 && !is_covered)
      list.push_back(kSchemaTypes[i]);
  }
  return list;
}

class Merger {
 public:
  explicit Merger(const std::string& path) : path_(path) {}

  Result<Schema> Merge(Schema out, const Schema& b) {
    if (out == false || b == false)
      return Schema(false);
    if (!out.is_object())
      return b;
    if (!b.is_object())
      return out;
    const bool closes = Closes(out) || Closes(b);
    const Schema a = closes ? out : Schema();
    for (const auto& [keyword, value] : b.items()) {
      const auto found = out.find(keyword);
      if (found == out.end())
        out[keyword] = value;
      else if (*found != value)
        TENON_RETURN_IF_ERROR(MergeKeyword(keyword, value, *found));
    }
    if (closes) {
      TENON_RETURN_IF_ERROR(CloseProperties(a, b, out));
      TENON_RETURN_IF_ERROR(CloseProperties(b, a, out));
    }
    return out;
  }

 private:
  // Whether members that it does not list are no free ones.
  static bool Closes(const Schema& schema) {
    const auto further = schema.find("additionalProperties");
    return further != schema.end() && *further != true;
  }

  Status MergeKeyword(const std::string& keyword, const Schema& value, Schema& into) {
    if (RoleOf(keyword) != KeywordRole::kConstraint)
      return {};
    const auto is = [&](std::string_view name) { return keyword == name; };
    if (is("type")) {
      into = TypesToJson(TypesOf({{"type", into}}) & TypesOf({{"type", value}}));
    } else if (is("enum")) {
      into.erase(std::remove_if(into.begin(), into.end(),
                                [&](const Schema& v) {
                                  return std::find(value.begin(), value.end(), v) == value.end();
                                }),
                 into.end());
    } else if (is("required")) {
      into.insert(into.end(), value.begin(), value.end());
    } else if (is("minimum") || is("exclusiveMinimum") || is("minLength") || is("minItems") ||
               is("minProperties")) {
      into = std::max(into, value);
    } else if (is("maximum") || is("exclusiveMaximum") || is("maxLength") || is("maxItems") ||
               is("maxProperties")) {
      into = std::min(into, value);
    } else if (is("properties")) {
      return MergeProperties(value, into);
    } else if (is("items") || is("additionalProperties")) {
      TENON_ASSIGN_OR_RETURN(into, Merge(std::move(into), value));
    } else {
      return Unsupported("two of these at once are not supported", path_ + keyword);
    }
    return {};
  }

  Status MergeProperties(const Schema& value, Schema& into) {
    for (const auto& [name, schema] : value.items()) {
      const auto found = into.find(name);
      if (found == into.end()) {
        into[name] = schema;
        continue;
      }
      TENON_ASSIGN_OR_RETURN(*found, Merge(std::move(*found), schema));
    }
    return {};
  }

  // Members that only `b` knows are further ones to `a`.
  Status CloseProperties(const Schema& a, const Schema& b, Schema& out) {
    const auto others = b.find("properties");
    if (!Closes(a) || others == b.end())
      return {};
    const auto further = a.find("additionalProperties");
    for (const auto& [name, schema] : others->items()) {
      const auto own = a.find("properties");
      if (own != a.end() && own->contains(name))
        continue;
      TENON_ASSIGN_OR_RETURN(out["properties"][name], Merge(out["properties"][name], *further));
    }
    return {};
  }

  const std::string& path_;
};

}  // namespace

KeywordRole RoleOf(std::string_view keyword) {
  if (Has(kConstraints, keyword))
    return KeywordRole::kConstraint;
  // By convention a vendor's own remark.
  if (Has(kAnnotations, keyword) || keyword.starts_with("x-"))
    return KeywordRole::kAnnotation;
  return KeywordRole::kUnknown;
}

uint32_t TypesOf(const Schema& schema) {
  uint32_t types = kAllTypes;
  if (const auto type = schema.find("type"); type != schema.end()) {
    types = 0;
    if (type->is_string())
      types = TypeBit(type->get_ref<const std::string&>());
    for (const Schema& name : type->is_array() ? *type : Schema::array())
      types |= name.is_string() ? TypeBit(name.get_ref<const std::string&>()) : 0;
  }
  const Schema values = ValuesOf(schema);
  if (values.is_null())
    return types;
  uint32_t of_values = 0;
  for (const Schema& value : values)
    of_values |= TypeBitOf(value);
  return types & of_values;
}

Schema ValuesOf(const Schema& schema) {
  if (const auto value = schema.find("const"); value != schema.end())
    return Schema::array({*value});
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array())
    return *values;
  return nullptr;
}

Result<Schema> MergeSchemas(Schema a, const Schema& b, const std::string& path) {
  return Merger(path).Merge(std::move(a), b);
}

}  // namespace tenon

#include "engine/constrain/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/constrain/number_range.h"
#include "engine/constrain/regex.h"
#include "engine/constrain/schema_merge.h"
#include "engine/constrain/string_format.h"

namespace tenon {
namespace {

using Term = Grammar::Term;

// Schemas inside schemas: the compiler recurses. More than the levels that an answer may have.
constexpr int kMaxNesting = 600;
// Of $ref, allOf and anyOf that are put together before any type is reached.
constexpr int kMaxMerges = 256;
// Schemas that are put together in all: a schema of a page can ask for 2^n of them.
constexpr size_t kMaxMerged = 10'000;
// Of one object: members are compared with each other.
constexpr size_t kMaxMembers = 2000;
// Counts are kept in 64 bits; a text of more characters than that does not exist.
constexpr double kMaxCount = 1e15;

std::string Join(const std::string& path, std::string_view part) {
  return path.empty() ? std::string(part) : fmt::format("{}.{}", path, part);
}

bool Has(const Schema& schema, const char* keyword) {
  return schema.contains(keyword);
}

class SchemaCompiler {
 public:
  SchemaCompiler(JsonGrammar& json, const Schema& root)
      : json_(json), grammar_(json.grammar()), root_(root) {}

  Result<Term> Compile() { return Value(root_, ""); }

 private:
  Result<Term> Value(const Schema& schema, const std::string& path);
  Result<Term> Combined(const Schema& schema, const std::string& path, bool& is_combined);
  Result<Term> Reference(const Schema& schema, const std::string& path);
  Result<Schema> FollowChain(const Schema& schema, const std::string& path) const;
  Result<Term> AllOf(const Schema& schema, const std::string& path);
  Result<Term> Branches(const Schema& schema, const char* keyword, const std::string& path);
  Status CheckExclusive(const Schema& branches, const std::string& path) const;
  Result<Term> Values(const Schema& schema, const std::string& path);
  Result<Term> Typed(const Schema& schema, const std::string& path);
  Result<Term> OfType(std::string_view type, const Schema& schema, const std::string& path);
  Result<Term> String(const Schema& schema, const std::string& path);
  Result<Term> Number(NumberKind kind, const Schema& schema, const std::string& path);
  Result<Term> Array(const Schema& schema, const std::string& path);
  Result<Term> Object(const Schema& schema, const std::string& path);
  Status AddMembers(const Schema& schema, const std::string& path, JsonGrammar::ObjectParts& parts);
  Status LimitOthers(const Schema& schema, const std::string& path,
                     JsonGrammar::ObjectParts& parts);

  Status CheckKeywords(const Schema& schema, const std::string& path) const;
  static bool HasConstraints(const Schema& schema);
  Result<Schema> Resolve(const Schema& schema, const std::string& path) const;
  Result<std::optional<int64_t>> Count(const Schema& schema, const char* keyword,
                                       const std::string& path) const;
  Result<std::optional<NumberBound>> Bound(const Schema& schema, const char* inclusive,
                                           const char* exclusive, const std::string& path) const;
  // Keeps a schema that was put together for as long as the compiler works.
  const Schema& Keep(Schema schema) { return kept_.emplace_back(std::move(schema)); }
  Status CheckMerged(const std::string& path) const;

  JsonGrammar& json_;
  Grammar& grammar_;
  const Schema& root_;
  std::deque<Schema> kept_;
  std::unordered_map<std::string, Term> references_;  // by what $ref says
  int nesting_ = 0;
  int merges_ = 0;
};

Status SchemaCompiler::CheckKeywords(const Schema& schema, const std::string& path) const {
  for (const auto& [keyword, value] : schema.items()) {
    if (RoleOf(keyword) == KeywordRole::kUnknown)
      return Unsupported(fmt::format("the keyword '{}' is not supported", keyword),
                         Join(path, keyword));
  }
  return {};
}

bool SchemaCompiler::HasConstraints(const Schema& schema) {
  for (const auto& [keyword, value] : schema.items()) {
    if (RoleOf(keyword) == KeywordRole::kConstraint)
      return true;
  }
  return false;
}

Status SchemaCompiler::CheckMerged(const std::string& path) const {
  if (kept_.size() < kMaxMerged)
    return {};
  return InvalidArgument(fmt::format("puts more than {} schemas together", kMaxMerged), path);
}

Result<Term> SchemaCompiler::Value(const Schema& schema, const std::string& path) {
  if (schema.is_boolean())
    return schema.get<bool>() ? json_.AnyValue() : grammar_.Never();
  if (!schema.is_object())
    return InvalidArgument("a schema is an object or a boolean", path);
  TENON_RETURN_IF_ERROR(CheckKeywords(schema, path));
  TENON_RETURN_IF_ERROR(CheckMerged(path));
  if (nesting_ >= kMaxNesting)
    return InvalidArgument(fmt::format("is nested deeper than {} schemas", kMaxNesting), path);
  ++nesting_;
  bool is_combined = false;
  Result<Term> term = Combined(schema, path, is_combined);
  if (!is_combined) {
    merges_ = 0;
    term = Has(schema, "enum") || Has(schema, "const") ? Values(schema, path) : Typed(schema, path);
  }
  --nesting_;
  return term;
}

Result<Term> SchemaCompiler::Combined(const Schema& schema, const std::string& path,
                                      bool& is_combined) {
  is_combined = true;
  for (const char* keyword : {"$ref", "allOf", "anyOf", "oneOf"}) {
    if (!Has(schema, keyword))
      continue;
    if (++merges_ > kMaxMerges)
      return InvalidArgument("refers to itself without end", Join(path, keyword));
    if (keyword == std::string_view("$ref"))
      return Reference(schema, path);
    if (keyword == std::string_view("allOf"))
      return AllOf(schema, path);
    return Branches(schema, keyword, path);
  }
  is_combined = false;
  return grammar_.Never();
}

Result<Schema> SchemaCompiler::Resolve(const Schema& schema, const std::string& path) const {
  const std::string where = Join(path, "$ref");
  const Schema& reference = schema["$ref"];
  if (!reference.is_string())
    return InvalidArgument("expected a string", where);
  const auto& text = reference.get_ref<const std::string&>();
  if (!text.starts_with('#'))
    return Unsupported("only references within the schema ('#/...') are supported", where);
  try {
    return root_.at(nlohmann::ordered_json::json_pointer(text.substr(1)));
  } catch (const nlohmann::json::exception&) {
    return InvalidArgument(fmt::format("'{}' is not in the schema", text), where);
  }
}

// References that only name another one are followed here, however many: a chain of them is one
// reference, and a circle of them means nothing.
Result<Schema> SchemaCompiler::FollowChain(const Schema& schema, const std::string& path) const {
  TENON_ASSIGN_OR_RETURN(Schema target, Resolve(schema, path));
  std::unordered_set<std::string> seen;
  while (target.is_object() && Has(target, "$ref") && target["$ref"].is_string()) {
    Schema rest = target;
    rest.erase("$ref");
    if (HasConstraints(rest) || !CheckKeywords(rest, path).ok())
      break;
    if (!seen.insert(target["$ref"].get<std::string>()).second)
      return InvalidArgument("refers to itself without end", Join(path, "$ref"));
    TENON_ASSIGN_OR_RETURN(target, Resolve(target, path));
  }
  return target;
}

Result<Term> SchemaCompiler::Reference(const Schema& schema, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(Schema target, FollowChain(schema, path));
  Schema rest = schema;
  rest.erase("$ref");
  if (HasConstraints(rest)) {
    TENON_ASSIGN_OR_RETURN(Schema merged, MergeSchemas(target, rest, path));
    return Value(Keep(std::move(merged)), path);
  }
  const auto& name = schema["$ref"].get_ref<const std::string&>();
  if (const auto known = references_.find(name); known != references_.end())
    return known->second;
  const Grammar::Rule rule = grammar_.DeclareRule();
  const Term call = grammar_.Call(rule);
  references_.emplace(name, call);
  TENON_ASSIGN_OR_RETURN(const Term body, Value(Keep(std::move(target)), name));
  grammar_.DefineRule(rule, body);
  return call;
}

Result<Term> SchemaCompiler::AllOf(const Schema& schema, const std::string& path) {
  const Schema& all = schema["allOf"];
  if (!all.is_array() || all.empty())
    return InvalidArgument("expected an array of schemas", Join(path, "allOf"));
  Schema merged = schema;
  merged.erase("allOf");
  const bool is_plain = all.size() == 1 && !HasConstraints(merged);
  if (is_plain)
    return Value(all[0], Join(path, "allOf.0"));
  for (size_t i = 0; i < all.size(); ++i) {
    Schema part = all[i];
    const std::string part_path = fmt::format("{}.{}", Join(path, "allOf"), i);
    for (int hops = 0; part.is_object() && Has(part, "$ref") && hops < kMaxMerges; ++hops) {
      TENON_ASSIGN_OR_RETURN(Schema target, Resolve(part, part_path));
      part.erase("$ref");
      TENON_ASSIGN_OR_RETURN(part, MergeSchemas(target, part, part_path + "."));
    }
    TENON_ASSIGN_OR_RETURN(merged, MergeSchemas(std::move(merged), part, part_path + "."));
  }
  return Value(Keep(std::move(merged)), path);
}

Result<Term> SchemaCompiler::Branches(const Schema& schema, const char* keyword,
                                      const std::string& path) {
  const std::string here = Join(path, keyword);
  const Schema& branches = schema[keyword];
  if (!branches.is_array() || branches.empty())
    return InvalidArgument("expected an array of schemas", here);
  if (keyword == std::string_view("oneOf"))
    TENON_RETURN_IF_ERROR(CheckExclusive(branches, here));
  Schema rest = schema;
  rest.erase(keyword);
  const bool is_alone = !HasConstraints(rest);
  const int merges = merges_;
  std::vector<Term> terms;
  for (size_t i = 0; i < branches.size(); ++i) {
    const std::string branch_path = fmt::format("{}.{}", here, i);
    merges_ = merges;
    const Schema* branch = &branches[i];
    if (!is_alone) {
      Schema part = *branch;
      if (part.is_object() && Has(part, "$ref")) {
        TENON_ASSIGN_OR_RETURN(Schema target, Resolve(part, branch_path));
        part.erase("$ref");
        TENON_ASSIGN_OR_RETURN(part, MergeSchemas(target, part, branch_path + "."));
      }
      TENON_ASSIGN_OR_RETURN(Schema merged, MergeSchemas(rest, part, branch_path + "."));
      branch = &Keep(std::move(merged));
    }
    TENON_ASSIGN_OR_RETURN(const Term term, Value(*branch, branch_path));
    terms.push_back(term);
  }
  return grammar_.Either(std::move(terms));
}

// oneOf forbids what two branches allow; that can be kept only where no value is in two of them.
Status SchemaCompiler::CheckExclusive(const Schema& branches, const std::string& path) const {
  constexpr size_t kMaxBranches = 64;  // each is compared with each
  if (branches.size() > kMaxBranches)
    return Unsupported(fmt::format("more than {} branches", kMaxBranches), path);
  const auto resolve = [&](const Schema& schema) {
    auto target = Resolve(schema, path);
    return target.ok() ? *target : Schema::object();
  };
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!Exclude(branches[i], branches[j], resolve))
        return Unsupported(
            fmt::format("branches {} and {} may allow the same value; use anyOf", j, i), path);
    }
  }
  return {};
}

// enum and const, each value written in one way. Other keywords beside them are refused: the values
// that they leave would have to be found by a validator.
Result<Term> SchemaCompiler::Values(const Schema& schema, const std::string& path) {
  for (const auto& [keyword, value] : schema.items()) {
    const bool is_known = keyword == "enum" || keyword == "const" || keyword == "type" ||
                          RoleOf(keyword) == KeywordRole::kAnnotation;
    if (!is_known)
      return Unsupported("is not supported beside enum or const", Join(path, keyword));
  }
  const Schema values = ValuesOf(schema);
  if (!values.is_array() || values.empty())
    return InvalidArgument("expected an array of values", Join(path, "enum"));
  Schema untyped = schema;
  untyped.erase("const");
  untyped.erase("enum");
  const uint32_t types = TypesOf(untyped);
  std::vector<std::string> texts;
  for (const Schema& value : values) {
    const bool is_listed =
        !Has(schema, "const") || !Has(schema, "enum") ||
        std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
    if (is_listed && (types & TypesOf({{"const", value}})) != 0)
      texts.push_back(value.dump());
  }
  return texts.empty() ? grammar_.Never() : grammar_.AnyOf(std::move(texts));
}

// The types that a schema without "type" means: those that its keywords are about.
std::vector<std::string_view> ImpliedTypes(const Schema& schema) {
  const std::pair<std::string_view, std::vector<const char*>> groups[] = {
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
      {"object",
       {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}},
      {"array",
       {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "additionalItems"}}};
  std::vector<std::string_view> types;
  for (const auto& [type, keywords] : groups) {
    if (std::ranges::any_of(keywords, [&](const char* k) { return schema.contains(k); }))
      types.push_back(type);
  }
  return types;
}

Result<Term> SchemaCompiler::Typed(const Schema& schema, const std::string& path) {
  std::vector<std::string_view> types;
  if (Has(schema, "type")) {
    const Schema& type = schema["type"];
    const Schema list = type.is_array() ? type : Schema::array({type});
    for (const Schema& name : list) {
      const auto* known = name.is_string()
                              ? std::ranges::find(kSchemaTypes, name.get_ref<const std::string&>())
                              : std::end(kSchemaTypes);
      if (known == std::end(kSchemaTypes))
        return InvalidArgument(fmt::format("found {}, expected a type's name", name.dump()),
                               Join(path, "type"));
      types.push_back(*known);
    }
    if (std::ranges::count(types, "number") > 0)
      std::erase(types, "integer");
  } else {
    types = ImpliedTypes(schema);
    if (types.empty())
      return json_.AnyValue();
  }
  std::vector<Term> terms;
  for (const std::string_view type : types) {
    TENON_ASSIGN_OR_RETURN(const Term term, OfType(type, schema, path));
    terms.push_back(term);
  }
  return grammar_.Either(std::move(terms));
}

Result<Term> SchemaCompiler::OfType(std::string_view type, const Schema& schema,
                                    const std::string& path) {
  if (type == "string")
    return String(schema, path);
  if (type == "number")
    return Number(NumberKind::kAny, schema, path);
  if (type == "integer")
    return Number(NumberKind::kInteger, schema, path);
  if (type == "boolean")
    return grammar_.AnyOf({"true", "false"});
  if (type == "null")
    return grammar_.Literal("null");
  return type == "object" ? Object(schema, path) : Array(schema, path);
}

Result<std::optional<int64_t>> SchemaCompiler::Count(const Schema& schema, const char* keyword,
                                                     const std::string& path) const {
  const auto found = schema.find(keyword);
  if (found == schema.end())
    return std::optional<int64_t>();
  const bool is_count = found->is_number() && found->get<double>() >= 0 &&
                        found->get<double>() <= kMaxCount &&
                        found->get<double>() == std::floor(found->get<double>());
  if (!is_count)
    return InvalidArgument(fmt::format("found {}, expected a whole number", found->dump()),
                           Join(path, keyword));
  return std::optional(static_cast<int64_t>(found->get<double>()));
}

Result<Term> SchemaCompiler::String(const Schema& schema, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const auto min, Count(schema, "minLength", path));
  TENON_ASSIGN_OR_RETURN(const auto max, Count(schema, "maxLength", path));
  std::string_view pattern;
  RegexMatch match = RegexMatch::kWhole;
  std::string where = Join(path, "format");
  if (Has(schema, "format")) {
    const Schema& format = schema["format"];
    if (format.is_string())
      pattern = FormatPattern(format.get_ref<const std::string&>());
    if (pattern.empty())
      return Unsupported(fmt::format("the format {} is not supported", format.dump()), where);
  }
  if (Has(schema, "pattern")) {
    where = Join(path, "pattern");
    if (!pattern.empty())
      return Unsupported("is not supported beside format", where);
    if (!schema["pattern"].is_string())
      return InvalidArgument("expected a string", where);
    pattern = schema["pattern"].get_ref<const std::string&>();
    match = RegexMatch::kAnywhere;
  }
  if (!Has(schema, "pattern") && !Has(schema, "format")) {
    if (max.has_value() && *max < min.value_or(0))
      return grammar_.Never();
    return json_.String(min.value_or(0), max.value_or(Grammar::kNoLimit));
  }
  if (min.value_or(0) > 0 || max.has_value())
    return Unsupported("is not supported beside pattern or format",
                       Join(path, max.has_value() ? "maxLength" : "minLength"));
  auto characters = CompileRegex(grammar_, pattern, TextForm::kJsonString, match);
  if (!characters.ok())
    return MakeError(characters.error().code, characters.error().message, where);
  return json_.Quoted(*characters);
}

Result<std::optional<NumberBound>> SchemaCompiler::Bound(const Schema& schema,
                                                         const char* inclusive,
                                                         const char* exclusive,
                                                         const std::string& path) const {
  std::optional<NumberBound> bound;
  const bool is_lower = inclusive == std::string_view("minimum");
  for (const char* keyword : {inclusive, exclusive}) {
    const auto found = schema.find(keyword);
    if (found == schema.end())
      continue;
    if (!found->is_number())
      return InvalidArgument("expected a number", Join(path, keyword));
    const NumberBound next{found->get<double>(), keyword == exclusive};
    const bool is_tighter =
        !bound.has_value() || (is_lower ? next.value >= bound->value : next.value <= bound->value);
    if (is_tighter)
      bound = next;
  }
  return bound;
}

Result<Term> SchemaCompiler::Number(NumberKind kind, const Schema& schema,
                                    const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const auto low, Bound(schema, "minimum", "exclusiveMinimum", path));
  TENON_ASSIGN_OR_RETURN(const auto high, Bound(schema, "maximum", "exclusiveMaximum", path));
  if (Has(schema, "multipleOf")) {
    if (schema["multipleOf"] != 1)
      return Unsupported("is supported for 1 only", Join(path, "multipleOf"));
    kind = NumberKind::kInteger;
  }
  auto term = NumberBetween(grammar_, kind, low, high);
  if (!term.ok())
    return MakeError(term.error().code, term.error().message,
                     Join(path, low.has_value() ? "minimum" : "maximum"));
  return term;
}

Result<Term> SchemaCompiler::Array(const Schema& schema, const std::string& path) {
  if (Has(schema, "uniqueItems") && schema["uniqueItems"] != false)
    return Unsupported("the keyword 'uniqueItems' is not supported", Join(path, "uniqueItems"));
  TENON_ASSIGN_OR_RETURN(const auto min, Count(schema, "minItems", path));
  TENON_ASSIGN_OR_RETURN(const auto max, Count(schema, "maxItems", path));
  JsonGrammar::ArrayParts parts;
  parts.min = min.value_or(0);
  parts.max = max.value_or(Grammar::kNoLimit);
  // Draft 7 has the first items in "items" and the others in "additionalItems".
  const bool is_old = Has(schema, "items") && schema["items"].is_array();
  const char* first = is_old ? "items" : "prefixItems";
  const char* rest = is_old ? "additionalItems" : "items";
  if (Has(schema, first) && !schema[first].is_array())
    return InvalidArgument("expected an array of schemas", Join(path, first));
  for (size_t i = 0; Has(schema, first) && i < schema[first].size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const Term item,
                           Value(schema[first][i], fmt::format("{}.{}", Join(path, first), i)));
    parts.first.push_back(item);
  }
  if (Has(schema, rest)) {
    if (schema[rest] != false) {
      TENON_ASSIGN_OR_RETURN(parts.rest, Value(schema[rest], Join(path, rest)));
      parts.rest = grammar_.Share(parts.rest);
    }
  } else if (parts.first.empty() || parts.min > static_cast<int64_t>(parts.first.size())) {
    parts.rest = json_.AnyValue();
  }
  return json_.Array(parts);
}

Status SchemaCompiler::AddMembers(const Schema& schema, const std::string& path,
                                  JsonGrammar::ObjectParts& parts) {
  const Schema none = Schema::object();
  const Schema& properties = Has(schema, "properties") ? schema["properties"] : none;
  if (!properties.is_object())
    return InvalidArgument("expected an object", Join(path, "properties"));
  if (properties.size() > kMaxMembers)
    return Unsupported(fmt::format("more than {} members", kMaxMembers), Join(path, "properties"));
  std::vector<std::string> required;
  const Schema names = Has(schema, "required") ? schema["required"] : Schema::array();
  for (const Schema& name : names) {
    if (!names.is_array() || !name.is_string() || names.size() > kMaxMembers)
      return InvalidArgument("expected an array of at most 2000 names", Join(path, "required"));
    required.push_back(name.get<std::string>());
  }
  const auto is_required = [&](const std::string& name) {
    return std::ranges::find(required, name) != required.end();
  };
  for (const auto& [name, member] : properties.items()) {
    // A member that can never be is left out; one that must be makes the object impossible.
    if (member == false && !is_required(name))
      continue;
    TENON_ASSIGN_OR_RETURN(const Term value, Value(member, Join(Join(path, "properties"), name)));
    parts.members.push_back({name, value, is_required(name)});
  }
  for (const std::string& name : required) {
    const bool is_new =
        std::ranges::find(parts.members, name, &JsonGrammar::Member::name) == parts.members.end();
    if (!is_new)
      continue;
    const bool is_open = !Has(schema, "additionalProperties");
    const Term value =
        is_open ? json_.AnyValue() : (parts.other_value < 0 ? grammar_.Never() : parts.other_value);
    parts.members.push_back({name, value, true});
  }
  return {};
}

// Further members may repeat a name, so that their number says little: at most one can be counted
// on.
Status SchemaCompiler::LimitOthers(const Schema& schema, const std::string& path,
                                   JsonGrammar::ObjectParts& parts) {
  TENON_ASSIGN_OR_RETURN(const auto min, Count(schema, "minProperties", path));
  TENON_ASSIGN_OR_RETURN(const auto max, Count(schema, "maxProperties", path));
  const auto required = std::ranges::count_if(
      parts.members, [](const JsonGrammar::Member& member) { return member.is_required; });
  if (min.value_or(0) > required)
    return Unsupported("is not supported beyond the required members", Join(path, "minProperties"));
  if (!max.has_value())
    return {};
  const auto members = static_cast<int64_t>(parts.members.size());
  if (*max < members)
    return Unsupported("is not supported below the number of properties",
                       Join(path, "maxProperties"));
  parts.max_others = *max - members;
  return {};
}

Result<Term> SchemaCompiler::Object(const Schema& schema, const std::string& path) {
  JsonGrammar::ObjectParts parts;
  if (Has(schema, "additionalProperties")) {
    const Schema& others = schema["additionalProperties"];
    if (others != false) {
      TENON_ASSIGN_OR_RETURN(parts.other_value, Value(others, Join(path, "additionalProperties")));
      parts.other_value = grammar_.Share(parts.other_value);
    }
  } else if (!Has(schema, "properties")) {
    parts.other_value = json_.AnyValue();
  }
  TENON_RETURN_IF_ERROR(AddMembers(schema, path, parts));
  TENON_RETURN_IF_ERROR(LimitOthers(schema, path, parts));
  return json_.Object(parts);
}

}  // namespace

Result<Term> CompileJsonSchema(JsonGrammar& json, const nlohmann::ordered_json& schema) {
  return SchemaCompiler(json, schema).Compile();
}

}  // namespace tenon

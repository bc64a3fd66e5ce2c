#include "frontend/server/api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tenon {
namespace {

// Arguments of tools and schemas of schemas stay below 20; recursion over a body must stay cheap.
constexpr size_t kMaxDepth = 128;

// Builds the value without looking up a key among the earlier ones at every insertion, which would
// make an object of n fields cost n^2.
class JsonBuilder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool key(std::string& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override;
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override;

  Json& root() { return root_; }
  const std::string& error() const { return error_; }

 private:
  using Members = std::vector<std::pair<const std::string, Json>>;

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json value);
  Json* Place(Json value);

  Json root_;
  std::vector<Json*> open_;  // from the root to the innermost; stable while their parents wait
  std::string key_;
  std::string error_;
};

Json* JsonBuilder::Place(Json value) {
  if (open_.empty()) {
    root_ = std::move(value);
    return &root_;
  }
  Json& parent = *open_.back();
  if (parent.is_array()) {
    parent.get_ref<Json::array_t&>().push_back(std::move(value));
    return &parent.get_ref<Json::array_t&>().back();
  }
  auto& members = static_cast<Members&>(parent.get_ref<Json::object_t&>());
  members.emplace_back(std::move(key_), std::move(value));
  return &members.back().second;
}

bool JsonBuilder::Open(Json value) {
  if (open_.size() >= kMaxDepth) {
    error_ = fmt::format("nested deeper than {} levels", kMaxDepth);
    return false;
  }
  open_.push_back(Place(std::move(value)));
  return true;
}

bool JsonBuilder::end_object() {
  std::vector<std::string_view> keys;
  for (const auto& [name, value] : open_.back()->get_ref<Json::object_t&>())
    keys.push_back(name);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice != keys.end()) {
    error_ = fmt::format("the field '{}' stands twice in one object", *twice);
    return false;
  }
  open_.pop_back();
  return true;
}

bool JsonBuilder::parse_error(size_t position, const std::string&,
                              const nlohmann::detail::exception& error) {
  // The library's text goes "[json.exception...] parse error at line 1, column 2: what".
  std::string_view text = error.what();
  const size_t colon = text.find(": ");
  if (colon != std::string_view::npos)
    text.remove_prefix(colon + 2);
  error_ = fmt::format("not valid JSON at byte {}: {}", position, text);
  return false;
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  JsonBuilder builder;
  try {
    if (Json::sax_parse(text.begin(), text.end(), &builder))
      return std::move(builder.root());
  } catch (const nlohmann::detail::exception& error) {
    return InvalidArgument(error.what());
  }
  return InvalidArgument(builder.error());
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view JsonTypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return value.is_number_float() ? "a number" : "an integer";
  }
}

const Json* FindField(const Json& object, std::string_view name) {
  if (!object.is_object())
    return nullptr;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (key == name)
      return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::string StringField(const Json& object, std::string_view name) {
  const Json* value = FindField(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

}  // namespace tenon

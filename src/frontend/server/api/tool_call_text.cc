#include "frontend/server/api/tool_call_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "frontend/store/ascii.h"

namespace tenon {
namespace {

constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
constexpr std::string_view kParameterOpen = "<parameter=";
constexpr std::string_view kParameterClose = "</parameter>";

// The text up to `mark`, which is taken off `text` with it; nothing when there is no mark.
std::optional<std::string_view> TakeUntil(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos)
    return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

const Json* SchemaOf(const Json& tools, std::string_view function, std::string_view parameter) {
  for (const Json& tool : tools) {
    const Json* entry = FindField(tool, "function");
    if (entry == nullptr || StringField(*entry, "name") != function)
      continue;
    const Json* parameters = FindField(*entry, "parameters");
    const Json* properties = parameters == nullptr ? nullptr : FindField(*parameters, "properties");
    return properties == nullptr ? nullptr : FindField(*properties, parameter);
  }
  return nullptr;
}

bool IsString(const Json* schema) {
  const Json* type = schema == nullptr ? nullptr : FindField(*schema, "type");
  return type != nullptr && *type == "string";
}

// One line end after the opening tag and one before the closing tag are no part of a value.
std::string_view WithoutLineEnds(std::string_view value) {
  if (value.starts_with('\n'))
    value.remove_prefix(1);
  if (value.ends_with('\n'))
    value.remove_suffix(1);
  return value;
}

Json ValueOf(std::string_view text, const Json* schema) {
  if (!IsString(schema)) {
    auto value = ParseJson(TrimAscii(text));
    if (value.ok() && (schema != nullptr || !value->is_string()))
      return std::move(*value);
  }
  return Json(std::string(WithoutLineEnds(text)));
}

// The parameters in `body`; nothing when something else stands there.
std::optional<Json> ParametersOf(std::string_view body, std::string_view function,
                                 const Json& tools) {
  Json arguments = Json::object();
  for (body = TrimAscii(body); !body.empty(); body = TrimAscii(body)) {
    if (!body.starts_with(kParameterOpen))
      return std::nullopt;
    body.remove_prefix(kParameterOpen.size());
    const auto name = TakeUntil(body, ">");
    const auto value = TakeUntil(body, kParameterClose);
    if (!name.has_value() || !value.has_value() || TrimAscii(*name).empty())
      return std::nullopt;
    const std::string_view key = TrimAscii(*name);
    arguments[std::string(key)] = ValueOf(*value, SchemaOf(tools, function, key));
  }
  return arguments;
}

std::optional<ParsedCall> DeepSeekCall(std::string_view text) {
  auto name = TakeUntil(text, kDeepSeekSeparator);
  if (!name.has_value())
    return std::nullopt;
  // V3 has the kind of call before the mark, and the name on the line after it.
  if (TrimAscii(*name) == "function" && !TrimAscii(text).starts_with('{'))
    name = TakeUntil(text, "\n");
  const size_t begin = text.find('{');
  if (!name.has_value() || TrimAscii(*name).empty() || begin == std::string_view::npos)
    return std::nullopt;
  const auto extent = JsonExtent(text.substr(begin));
  if (!extent.has_value())
    return std::nullopt;
  const auto arguments = ParseJson(text.substr(begin, *extent));
  if (!arguments.ok())
    return std::nullopt;
  return ParsedCall{std::string(TrimAscii(*name)), DumpJson(*arguments)};
}

}  // namespace

bool IsTaggedCall(std::string_view text) {
  return TrimAscii(text).starts_with(kFunctionOpen);
}

std::vector<ParsedCall> ParseTaggedCalls(std::string_view text, const Json& tools) {
  std::vector<ParsedCall> calls;
  for (text = TrimAscii(text); !text.empty(); text = TrimAscii(text)) {
    if (!text.starts_with(kFunctionOpen))
      return {};
    text.remove_prefix(kFunctionOpen.size());
    const auto name = TakeUntil(text, ">");
    const auto body = TakeUntil(text, kFunctionClose);
    if (!name.has_value() || !body.has_value() || TrimAscii(*name).empty())
      return {};
    const std::string function(TrimAscii(*name));
    const auto arguments = ParametersOf(*body, function, tools);
    if (!arguments.has_value())
      return {};
    calls.push_back({function, DumpJson(*arguments)});
  }
  return calls;
}

std::vector<ParsedCall> ParseDeepSeekCalls(std::string_view text) {
  if (text.find(kDeepSeekCallOpen) == std::string_view::npos)
    return ParseCalls(text);  // a call that was forced is plain JSON
  std::vector<ParsedCall> calls;
  for (text = TrimAscii(text); !text.empty(); text = TrimAscii(text)) {
    if (!text.starts_with(kDeepSeekCallOpen))
      return {};
    text.remove_prefix(kDeepSeekCallOpen.size());
    auto body = TakeUntil(text, kDeepSeekCallClose);
    if (!body.has_value())  // cut off after the arguments
      body = std::exchange(text, {});
    auto call = DeepSeekCall(*body);
    if (!call.has_value())
      return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

}  // namespace tenon

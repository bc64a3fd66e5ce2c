#include "frontend/server/api/tool_call_json.h"

#include "frontend/store/ascii.h"

namespace tenon {
namespace {

std::optional<ParsedCall> ToCall(const Json& value) {
  const Json* name = FindField(value, "name");
  // Llama 3 writes parameters, the others arguments; OpenAI's own shape nests both in "function".
  if (name == nullptr && FindField(value, "function") != nullptr)
    return ToCall(*FindField(value, "function"));
  if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty())
    return std::nullopt;
  const Json* arguments = FindField(value, "arguments");
  if (arguments == nullptr)
    arguments = FindField(value, "parameters");
  if (arguments == nullptr)
    return ParsedCall{name->get<std::string>(), "{}"};
  if (arguments->is_object())
    return ParsedCall{name->get<std::string>(), DumpJson(*arguments)};
  if (!arguments->is_string())
    return std::nullopt;
  // Arguments as text, as API clients know them.
  const auto inner = ParseJson(arguments->get_ref<const std::string&>());
  if (!inner.ok() || !inner->is_object())
    return std::nullopt;
  return ParsedCall{name->get<std::string>(), DumpJson(*inner)};
}

bool AddCalls(const Json& value, std::vector<ParsedCall>& calls) {
  if (!value.is_array()) {
    auto call = ToCall(value);
    if (!call.has_value())
      return false;
    calls.push_back(*std::move(call));
    return true;
  }
  for (const Json& element : value) {
    auto call = ToCall(element);
    if (!call.has_value())
      return false;
    calls.push_back(*std::move(call));
  }
  return !value.empty();
}

}  // namespace

std::optional<size_t> JsonExtent(std::string_view text) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"')
      in_string = true;
    else if (c == '{' || c == '[')
      ++depth;
    else if ((c == '}' || c == ']') && --depth == 0)
      return i + 1;
  }
  return std::nullopt;
}

std::vector<ParsedCall> ParseCalls(std::string_view text) {
  std::vector<ParsedCall> calls;
  for (text = TrimAscii(text); !text.empty(); text = TrimAscii(text)) {
    if (text.front() == ';' && !calls.empty()) {
      text.remove_prefix(1);
      continue;
    }
    const auto extent =
        text.front() == '{' || text.front() == '[' ? JsonExtent(text) : std::nullopt;
    if (!extent.has_value())
      return {};
    const auto value = ParseJson(text.substr(0, *extent));
    if (!value.ok() || !AddCalls(*value, calls))
      return {};
    text.remove_prefix(*extent);
  }
  return calls;
}

}  // namespace tenon

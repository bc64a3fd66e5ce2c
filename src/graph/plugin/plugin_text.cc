#include "graph/plugin/plugin_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <utility>

namespace tenon {
namespace {

std::string ValueText(int64_t value) {
  return fmt::format("int({})", value);
}
std::string ValueText(float value) {
  return fmt::format("float({})", value);
}
std::string ValueText(const std::string& value) {
  return fmt::format("\"{}\"", EscapeText(value));
}
std::string ValueText(const std::vector<int64_t>& value) {
  return fmt::format("ints({})", fmt::join(value, " "));
}
std::string ValueText(const std::vector<float>& value) {
  return fmt::format("floats({})", fmt::join(value, " "));
}

Error Expected(std::string_view what, const LineReader& reader) {
  // Enough of the rest of the line to find the place by eye.
  constexpr size_t kShown = 40;
  return InvalidArgument(
      fmt::format("found \"{}\", expected {}", reader.rest().substr(0, kShown), what));
}

Result<std::string> ParseName(LineReader& reader) {
  std::optional<std::string> name = reader.Name();
  if (!name)
    return Expected("a name", reader);
  return std::move(*name);
}

Status ParseField(LineReader& reader, std::string_view field, std::string& value) {
  if (reader.Word() != field || !reader.Accept("="))
    return Expected(fmt::format("{}=", field), reader);
  TENON_ASSIGN_OR_RETURN(value, ParseName(reader));
  return {};
}

// After the opening parenthesis; to the closing one.
template <class T>
Result<std::vector<T>> ParseNumbers(LineReader& reader) {
  std::vector<T> numbers;
  while (!reader.Accept(")")) {
    const std::string_view word = reader.Word();
    T number = {};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      return Expected("numbers and )", reader);
    numbers.push_back(number);
  }
  return numbers;
}

template <class T>
Result<PluginScalarOrList> ParseOne(LineReader& reader) {
  TENON_ASSIGN_OR_RETURN(const std::vector<T> numbers, ParseNumbers<T>(reader));
  if (numbers.size() != 1)
    return InvalidArgument(fmt::format("{} numbers in place of one", numbers.size()));
  return PluginScalarOrList(numbers.front());
}

template <class T>
Result<PluginScalarOrList> ParseList(LineReader& reader) {
  TENON_ASSIGN_OR_RETURN(std::vector<T> numbers, ParseNumbers<T>(reader));
  return PluginScalarOrList(std::move(numbers));
}

Result<PluginScalarOrList> ParseValue(LineReader& reader) {
  const std::string_view kind = reader.Word();
  if (kind.empty()) {
    TENON_ASSIGN_OR_RETURN(std::string text, ParseName(reader));
    return PluginScalarOrList(std::move(text));
  }
  if (!reader.Accept("("))
    return Expected("int(, float(, ints(, floats( or a text in quotes", reader);
  if (kind == "int")
    return ParseOne<int64_t>(reader);
  if (kind == "float")
    return ParseOne<float>(reader);
  if (kind == "ints")
    return ParseList<int64_t>(reader);
  if (kind == "floats")
    return ParseList<float>(reader);
  return InvalidArgument(fmt::format("\"{}\" is no kind of attribute", kind));
}

}  // namespace

std::string PrintPluginAttrs(const PluginAttrs& attrs) {
  if (attrs.op == nullptr)
    return {};
  std::string text =
      fmt::format("domain={}, operator={}", NameToken(attrs.op->domain), NameToken(attrs.op->name));
  for (const PluginValue& attribute : attrs.values) {
    text += fmt::format(", {}=", NameToken(attribute.name));
    text += std::visit([](const auto& value) { return ValueText(value); }, attribute.value);
  }
  return text;
}

Result<PluginAttrs> ParsePluginAttrs(LineReader& reader, const PluginOperators* operators) {
  if (!reader.Accept("{"))
    return Expected("{domain=", reader);
  std::string domain;
  std::string name;
  TENON_RETURN_IF_ERROR(ParseField(reader, "domain", domain));
  if (!reader.Accept(","))
    return Expected(", operator=", reader);
  TENON_RETURN_IF_ERROR(ParseField(reader, "operator", name));
  PluginAttrs attrs;
  TENON_ASSIGN_OR_RETURN(
      attrs.op, (operators == nullptr ? PluginOperators() : *operators).Find(domain, name));
  while (!reader.Accept("}")) {
    if (!reader.Accept(","))
      return Expected(", or }", reader);
    PluginValue attribute;
    TENON_ASSIGN_OR_RETURN(attribute.name, ParseName(reader));
    if (!reader.Accept("="))
      return Expected("attribute=value", reader);
    TENON_ASSIGN_OR_RETURN(attribute.value, ParseValue(reader));
    attrs.values.push_back(std::move(attribute));
  }
  return attrs;
}

}  // namespace tenon

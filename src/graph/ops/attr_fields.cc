#include "graph/ops/attr_fields.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <type_traits>

#include "graph/ops/registry.h"
#include "graph/plugin/plugin_text.h"

namespace tenon {
namespace {

// Indexed by Epilogue.
constexpr std::array<std::string_view, 4> kEpilogueNames = {"none", "add_residual", "silu_mul",
                                                            "gelu_mul"};

std::string ValueText(int64_t value) {
  return fmt::format("{}", value);
}
std::string ValueText(float value) {
  return fmt::format("{}", value);
}
std::string ValueText(bool value) {
  return value ? "true" : "false";
}
std::string ValueText(uint8_t value) {
  return fmt::format("{}", static_cast<int>(value));
}
std::string ValueText(Epilogue value) {
  return std::string(kEpilogueNames[static_cast<size_t>(value)]);
}

std::string FieldText(const AttrField& field) {
  return std::visit([](const auto* value) { return ValueText(*value); }, field.value);
}

template <class T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadValue(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool ReadValue(std::string_view text, Epilogue& value) {
  for (size_t i = 0; i < kEpilogueNames.size(); ++i) {
    if (kEpilogueNames[i] == text) {
      value = static_cast<Epilogue>(i);
      return true;
    }
  }
  return false;
}

bool ReadValue(std::string_view text, int64_t& value) {
  return ReadNumber(text, value);
}
bool ReadValue(std::string_view text, float& value) {
  return ReadNumber(text, value);
}
bool ReadValue(std::string_view text, uint8_t& value) {
  return ReadNumber(text, value);
}

}  // namespace

void AppendRopeFields(RopeParams& rope, std::vector<AttrField>& fields) {
  const AttrField all[] = {
      {"base", &rope.base},
      {"rotary_dim", &rope.rotary_dim},
      {"interleaved", &rope.interleaved},
      {"scaling", &rope.scaling},
      {"factor", &rope.factor},
      {"original_context", &rope.original_context},
      {"low_freq_factor", &rope.low_freq_factor},
      {"high_freq_factor", &rope.high_freq_factor},
      {"beta_fast", &rope.beta_fast},
      {"beta_slow", &rope.beta_slow},
      {"ext_factor", &rope.ext_factor},
      {"attention_factor", &rope.attention_factor},
  };
  for (AttrField field : all) {
    field.shown = FieldShown::kWhenChanged;
    fields.push_back(field);
  }
}

std::string PrintAttrs(const OpAttrs& attrs) {
  if (const auto* plugin = std::get_if<PluginAttrs>(&attrs))
    return PrintPluginAttrs(*plugin);
  const OpSchema& schema = SchemaOf(attrs);
  OpAttrs shown = attrs;
  OpAttrs defaults = schema.make();
  const std::vector<AttrField> fields = schema.fields(shown);
  const std::vector<AttrField> plain = schema.fields(defaults);
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string value = FieldText(fields[i]);
    if (fields[i].shown == FieldShown::kWhenChanged && value == FieldText(plain[i]))
      continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", fields[i].name, value);
  }
  return text;
}

Status SetAttr(OpAttrs& attrs, std::string_view name, std::string_view text) {
  const OpSchema& schema = SchemaOf(attrs);
  for (const AttrField& field : schema.fields(attrs)) {
    if (field.name != name)
      continue;
    if (std::visit([&](auto* value) { return ReadValue(text, *value); }, field.value))
      return {};
    return InvalidArgument(fmt::format("{}: \"{}\" is no value for {}", schema.name, text, name));
  }
  return InvalidArgument(fmt::format("{} has no attribute \"{}\"", schema.name, name));
}

}  // namespace tenon

#include "accel/module_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon {

OptionReader::OptionReader(std::string_view module, const nlohmann::json& options)
    : OptionReader(TopLevel{fmt::format("modules.{}", module)}, options) {}

OptionReader::OptionReader(TopLevel block, const nlohmann::json& options)
    : path_(std::move(block.name)), options_(options) {
  if (!options_.is_object() && !options_.is_null())
    status_ = InvalidArgument(
        fmt::format("found {}, expected options by name", options_.type_name()), path_);
}

const nlohmann::json* OptionReader::Find(std::string_view name) {
  known_.emplace_back(name);
  if (!status_.ok() || !options_.is_object())
    return nullptr;
  const auto found = options_.find(name);
  return found == options_.end() || found->is_null() ? nullptr : &*found;
}

void OptionReader::Fail(std::string_view name, std::string message) {
  if (status_.ok())
    status_ = InvalidArgument(std::move(message), fmt::format("{}.{}", path_, name));
}

void OptionReader::WrongType(std::string_view name, std::string_view expected,
                             const nlohmann::json& found) {
  Fail(name, fmt::format("found {}, expected {}", found.type_name(), expected));
}

void OptionReader::Int(std::string_view name, int64_t& value, OptionRange range) {
  const nlohmann::json* found = Find(name);
  if (found == nullptr)
    return;
  if (!found->is_number_integer()) {
    WrongType(name, "a whole number", *found);
    return;
  }
  const auto as_double = found->get<double>();
  if (as_double < range.low || as_double > range.high)
    Fail(name, fmt::format("found {}, expected {} to {}", found->dump(), range.low, range.high));
  else
    value = found->get<int64_t>();
}

void OptionReader::Number(std::string_view name, double& value, OptionRange range) {
  const nlohmann::json* found = Find(name);
  if (found == nullptr)
    return;
  if (!found->is_number()) {
    WrongType(name, "a number", *found);
    return;
  }
  const auto number = found->get<double>();
  if (!(number >= range.low && number <= range.high))
    Fail(name, fmt::format("found {}, expected {} to {}", found->dump(), range.low, range.high));
  else
    value = number;
}

void OptionReader::Share(std::string_view name, double& value) {
  const nlohmann::json* found = Find(name);
  if (found == nullptr)
    return;
  if (!found->is_string()) {
    known_.pop_back();
    Number(name, value, {0.0, 1.0});
    return;
  }
  const Result<double> share = ParseShare(found->get<std::string>());
  if (share.ok())
    value = *share;
  else
    Fail(name, share.error().message);
}

void OptionReader::Text(std::string_view name, std::string& value) {
  const nlohmann::json* found = Find(name);
  if (found == nullptr)
    return;
  if (found->is_string())
    value = found->get<std::string>();
  else
    WrongType(name, "text", *found);
}

void OptionReader::Object(std::string_view name, nlohmann::json& value) {
  const nlohmann::json* found = Find(name);
  if (found == nullptr)
    return;
  if (found->is_object())
    value = *found;
  else
    WrongType(name, "values by name", *found);
}

void OptionReader::Choice(std::string_view name, size_t& index,
                          std::span<const std::string_view> choices) {
  std::string text(choices[index]);
  Text(name, text);
  const auto found = std::ranges::find(choices, text);
  if (found != choices.end()) {
    index = static_cast<size_t>(found - choices.begin());
    return;
  }
  Fail(name, fmt::format("found {}, expected one of: {}", text, fmt::join(choices, ", ")));
}

Status OptionReader::Finish() {
  if (status_.ok() && options_.is_object()) {
    for (const auto& [name, value] : options_.items()) {
      if (std::ranges::find(known_, name) == known_.end()) {
        Fail(name, fmt::format("unknown option; there are: {}", fmt::join(known_, ", ")));
        break;
      }
    }
  }
  return std::move(status_);
}

Result<double> ParseShare(std::string_view text) {
  double value = 0.0;
  const bool is_percent = text.ends_with('%');
  const std::string_view digits = is_percent ? text.substr(0, text.size() - 1) : text;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
    return InvalidArgument(fmt::format("found {}, expected a share such as 15% or 0.15", text));
  if (is_percent)
    value /= 100.0;
  if (value < 0.0 || value > 1.0)
    return InvalidArgument(fmt::format("found {}, expected 0% to 100%", text));
  return value;
}

}  // namespace tenon

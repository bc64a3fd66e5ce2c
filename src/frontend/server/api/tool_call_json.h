// Tool calls in the JSON that models write.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/server/api/json.h"

namespace tenon {

struct ParsedCall {
  std::string name;
  std::string arguments;  // a JSON object as text
};

// The calls of `text`: an object {"name", "arguments" or "parameters"}, an array of them, or
// objects separated by ";" or white space. Empty when anything in it is not a call.
std::vector<ParsedCall> ParseCalls(std::string_view text);

// Length of the JSON object or array at the beginning of `text`; none while it is not complete.
std::optional<size_t> JsonExtent(std::string_view text);

}  // namespace tenon

// Tool calls that families write in other forms than JSON alone. Threading: functions from any
// thread.
#pragma once

#include <string_view>
#include <vector>

#include "frontend/server/api/tool_call_json.h"

namespace tenon {

// Qwen3-Coder's: <function=NAME> <parameter=KEY> VALUE </parameter> ... </function>, one or more.
// A value is JSON unless the tool's schema says that it is a string; `tools` are the request's.
// Empty when anything in it is not a call.
std::vector<ParsedCall> ParseTaggedCalls(std::string_view text, const Json& tools);
bool IsTaggedCall(std::string_view text);

// What stands between DeepSeek's marks of all calls: each between its own two marks, in V3's and
// R1's form (function, mark, name, a block of JSON) or V3.1's (name, mark, JSON).
std::vector<ParsedCall> ParseDeepSeekCalls(std::string_view text);

inline constexpr std::string_view kDeepSeekCallOpen = "<｜tool▁call▁begin｜>";
inline constexpr std::string_view kDeepSeekCallClose = "<｜tool▁call▁end｜>";
inline constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";

}  // namespace tenon

// Finding and replacing parts of a text in linear time. Positions are in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/chat/runtime.h"

namespace tenon::chat {

inline constexpr size_t kNotFound = std::string_view::npos;

// The first place of `part` at or after `from`. The whole text is charged as one pass per call
// chain by the callers.
size_t FindPart(std::string_view text, std::string_view part, size_t from = 0);
size_t FindLastPart(std::string_view text, std::string_view part);
// All places from the left that do not overlap, at most `limit` (all for a negative one).
std::vector<size_t> FindParts(Runtime& rt, std::string_view text, std::string_view part,
                              int64_t limit);
// The same from the right; in descending order.
std::vector<size_t> FindPartsFromRight(Runtime& rt, std::string_view text, std::string_view part,
                                       int64_t limit);
// str.replace, the empty part included.
Value ReplaceParts(Runtime& rt, const Value& text, std::string_view part,
                   std::string_view replacement, int64_t limit);

// The lines as str.splitlines gives them, each with its line break.
std::vector<std::string_view> SplitLines(std::string_view text);
// A line without its line break.
std::string_view WithoutBreak(std::string_view line);

}  // namespace tenon::chat

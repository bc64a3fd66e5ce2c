// Texts as numbers, by the rules of Python's int() and float().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::chat {

// Empty where int(text, base) raises ValueError; fails for a number beyond 64 bits.
std::optional<int64_t> ParseInteger(std::string_view text, int64_t base);
// Empty where float(text) raises ValueError.
std::optional<double> ParseFloat(std::string_view text);

}  // namespace tenon::chat

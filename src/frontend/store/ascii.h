// Text operations that look at ASCII only, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

constexpr char LowerCaseAscii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

inline std::string LowerCaseAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    c = LowerCaseAscii(c);
  return lower;
}

inline bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && LowerCaseAscii(a) == LowerCaseAscii(b);
}

constexpr bool IsBlankAscii(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

constexpr std::string_view TrimAscii(std::string_view text) {
  while (!text.empty() && IsBlankAscii(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && IsBlankAscii(text.back()))
    text.remove_suffix(1);
  return text;
}

}  // namespace tenon

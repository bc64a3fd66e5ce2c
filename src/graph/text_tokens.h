// Lexical rules shared by the printer and the parser of graph texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// Backslash, double quote and control characters as \xNN, so that any name stays on one line.
std::string EscapeText(std::string_view text);
// The inverse; nothing for a malformed escape.
std::optional<std::string> UnescapeText(std::string_view text);

// "name", or "\"any bytes\"" when the name has characters other than letters, digits and ._/:-
std::string NameToken(std::string_view name);
// "@" and the name's token.
std::string WeightToken(std::string_view tensor);

// Reads one line from left to right. Spaces between tokens do not matter.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  // Consumes `token` if the line goes on with it.
  bool Accept(std::string_view token);
  bool AtEnd();
  // The longest run of letters, digits and ._/:+- ; empty when there is none.
  std::string_view Word();
  std::optional<int64_t> Number();
  // A word, or a quoted and escaped name.
  std::optional<std::string> Name();
  std::string_view rest() const { return rest_; }

 private:
  void SkipSpaces();

  std::string_view rest_;
};

}  // namespace tenon

// UTF-8 and the character properties that Python's str methods use. Pure functions.
//
// Invalid bytes count as one character each and survive copying; text from JSON has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::chat {

inline constexpr char32_t kReplacement = 0xFFFD;

// The character at `pos`, which is moved past it; U+FFFD and one byte where the bytes are invalid.
// REQUIRES: pos < text.size().
char32_t DecodeAt(std::string_view text, size_t& pos);
// The start of the character that ends at `end`. REQUIRES: end > 0.
size_t PreviousStart(std::string_view text, size_t end);
void AppendUtf8(char32_t c, std::string& out);

int64_t CountCodePoints(std::string_view text);
bool IsValidUtf8(std::string_view text);
// The byte offset of code point `index`, or text.size() if it has no more than `index`.
size_t ByteOffset(std::string_view text, int64_t index);

// The properties as Python's methods of the same names define them.
bool IsSpace(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsPrintable(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
inline bool IsCased(char32_t c) {
  return IsUpper(c) || IsLower(c) || IsTitle(c);
}
inline bool IsAlnum(char32_t c) {
  return IsAlpha(c) || IsNumeric(c);
}
bool IsIdentifierPart(char32_t c);
bool IsIdentifier(std::string_view text);

struct CaseSpecial {
  char32_t code_point;
  std::string_view upper;
  std::string_view title;
};
const CaseSpecial* FindCaseSpecial(char32_t c);

enum class Case : uint8_t { kUpper, kLower, kTitle };
// Appends the character in the given case, with the mappings to several characters.
void AppendCased(char32_t c, Case target, std::string& out);
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
// First character in title case, the rest in lower case.
std::string Capitalize(std::string_view text);
// Every run of cased characters capitalized.
std::string ToTitle(std::string_view text);
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);

// Without the white space, or the characters of `chars`, at its ends.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
std::string_view StripLeft(std::string_view text, std::string_view chars);
std::string_view StripRight(std::string_view text, std::string_view chars);

}  // namespace tenon::chat

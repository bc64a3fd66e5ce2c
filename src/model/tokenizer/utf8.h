// UTF-8 decoding that accepts any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

enum class Utf8State {
  kValid,
  kInvalid,    // can't become a character, whatever follows
  kTruncated,  // the start of a character whose end is missing
};

struct Utf8Char {
  char32_t code = 0;  // kReplacement unless the state is kValid
  uint32_t length =
      0;  // bytes: the character, or the maximal invalid part (Unicode 3.9, table 3-8)
  Utf8State state = Utf8State::kValid;
};

inline constexpr char32_t kReplacement = 0xFFFD;

// The character at `position`. REQUIRES: position < text.size().
Utf8Char DecodeUtf8(std::string_view text, size_t position);

// The first `limit` bytes, or fewer so as not to end inside a character.
// REQUIRES: limit < text.size().
std::string_view Utf8Prefix(std::string_view text, size_t limit);

// REQUIRES: code is a Unicode scalar value.
void AppendUtf8(char32_t code, std::string& out);

}  // namespace tenon

// What single steps of a tokenizer.json make of a character. In the `tokenizers` package each
// follows a Unicode version of its own.
#pragma once

#include <cstdint>

namespace tenon {

namespace unicode_step {
inline constexpr uint8_t kBertMark = 1 << 0;     // BertNormalizer takes it away as an accent
inline constexpr uint8_t kAccentMark = 1 << 1;   // StripAccents does
inline constexpr uint8_t kBertControl = 1 << 2;  // BertNormalizer cleans it away
inline constexpr uint8_t kRegexWord = 1 << 3;    // \w of a Regex
inline constexpr uint8_t kTextWord = 1 << 4;     // \w of Whitespace and of single_word tokens
}  // namespace unicode_step

// The character's flags, by binary search. REQUIRES: code <= 0x10FFFF.
uint8_t StepFlagsOf(char32_t code);

}  // namespace tenon

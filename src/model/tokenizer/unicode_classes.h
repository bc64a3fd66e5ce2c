// UnicodeClasses: which of the classes that pre-tokenizers ask about a character belongs to.
//
// Owns its lookup table (about 150 KB). Threading: const after construction; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon {

// Bits. Every character has exactly one of the first twelve; the last two overlap with them.
namespace char_class {
inline constexpr uint16_t kOther = 1 << 0;     // controls, unassigned, ... that are not white space
inline constexpr uint16_t kUpper = 1 << 1;     // Lu
inline constexpr uint16_t kLower = 1 << 2;     // Ll
inline constexpr uint16_t kTitle = 1 << 3;     // Lt
inline constexpr uint16_t kModifier = 1 << 4;  // Lm
inline constexpr uint16_t kOtherLetter = 1 << 5;  // Lo
inline constexpr uint16_t kMark = 1 << 6;         // M
inline constexpr uint16_t kNumber = 1 << 7;       // N
inline constexpr uint16_t kPunctuation = 1 << 8;  // P
inline constexpr uint16_t kSymbol = 1 << 9;       // S
inline constexpr uint16_t kNewline = 1 << 10;     // CR and LF
inline constexpr uint16_t kBlank = 1 << 11;       // other white space
// What the `tokenizers` steps Digits and Punctuation cut out; they follow other Unicode versions
// than its regex engine does, and Punctuation takes all of ASCII's.
inline constexpr uint16_t kDigitsStep = 1 << 12;
inline constexpr uint16_t kPunctuationStep = 1 << 13;

inline constexpr uint16_t kSpace = kNewline | kBlank;
inline constexpr uint16_t kLetter = kUpper | kLower | kTitle | kModifier | kOtherLetter;
inline constexpr uint16_t kAny = (1 << 12) - 1;
}  // namespace char_class

class UnicodeClasses {
 public:
  UnicodeClasses();

  // REQUIRES: code <= 0x10FFFF.
  uint16_t Of(char32_t code) const { return pages_[index_[code >> 8] + (code & 0xFF)]; }

 private:
  std::vector<uint32_t> index_;  // [0x1100] where each page of 256 characters starts in pages_
  std::vector<uint16_t> pages_;  // pages of one class alone are stored once
};

}  // namespace tenon

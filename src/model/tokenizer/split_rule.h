// SplitRule: one alternative of a pre-tokenizer's pattern, and the sets of characters it speaks of.
//
// The published patterns are all built of a few shapes; each shape is matched here by hand in time
// linear in what it looks at, with the same result as a backtracking regex engine's.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "model/tokenizer/unicode_classes.h"

namespace tenon {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// Members: characters of `classes` or `ranges`, but not those of `without`.
struct CharSet {
  uint16_t classes = 0;
  std::span<const CodeRange> ranges = {};
  std::u32string_view without = {};
};

enum class Shape {
  kRun,              // prefix body{1,maximum} suffix*
  kCasedWord,        // prefix, capitals, then small letters: o200k's two word alternatives
  kContraction,      // 's 't 're 've 'm 'll 'd
  kContractionFold,  // the same in any case
  kBreaks,           // \s*[\r\n]+
  kBlanks,           // \s+(?!\S)|\s+
  kBlanksAtEnd,      // \s+$
  kMappedDigits,     // a run of bytes whose byte-level letter is numeric (see split_rule.cc)
  kDigitTriple,      // [0-9][0-9][0-9]
};

enum class Prefix {
  kNone,
  kOptional,  // at most one character of `prefix`, given back if the body would not match after it
  kRequired,
};

inline constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

struct SplitRule {
  Shape shape = Shape::kRun;
  Prefix prefix_use = Prefix::kNone;
  CharSet prefix = {};
  CharSet body = {};
  uint32_t maximum = kUnlimited;  // characters of the body
  CharSet suffix = {};
  // kCasedWord: whether a contraction in any case may close the word.
  bool contraction_suffix = false;
};

// The text of one piece under a rule, read by character.
class RuleMatcher {
 public:
  RuleMatcher(const UnicodeClasses& classes, std::string_view piece)
      : classes_(classes), text_(piece) {}

  struct Char {
    char32_t code = 0;
    uint16_t classes = 0;
    uint32_t length = 0;
  };

  // REQUIRES: position < size of the piece.
  Char At(size_t position) const;

  // Where the match of `rule` at `position` ends; `position` itself when it does not match.
  // `gap_begin` is where the unmatched characters before `position` begin.
  size_t Match(const SplitRule& rule, size_t position, size_t gap_begin) const;

 private:
  size_t MatchPrefixed(const SplitRule& rule, size_t position) const;
  size_t MatchBody(const SplitRule& rule, size_t position) const;
  size_t MatchCasedBody(size_t position) const;
  size_t MatchCasedWord(const SplitRule& rule, size_t position) const;
  size_t MatchContraction(Shape shape, size_t position) const;
  size_t MatchBreaks(size_t position) const;
  size_t MatchBlanks(size_t position) const;
  size_t MatchBlanksAtEnd(size_t position, size_t gap_begin) const;
  size_t MatchMappedDigits(size_t position) const;
  size_t MatchDigitTriple(size_t position) const;
  size_t RunEnd(const CharSet& set, size_t position, uint32_t maximum = kUnlimited) const;

  const UnicodeClasses& classes_;
  std::string_view text_;
};

}  // namespace tenon

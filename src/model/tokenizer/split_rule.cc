#include "model/tokenizer/split_rule.h"

#include <algorithm>

#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

using namespace char_class;

constexpr char32_t kLongS = 0x17F;  // folds to "s"

// The sets of o200k's word alternatives: letters without case and marks count as both.
constexpr uint16_t kCapital = kUpper | kTitle | kModifier | kOtherLetter | kMark;
constexpr uint16_t kSmall = kLower | kModifier | kOtherLetter | kMark;

bool Has(const CharSet& set, const RuleMatcher::Char& c) {
  bool member = (set.classes & c.classes) != 0;
  if (!member && !set.ranges.empty()) {
    auto after =
        std::upper_bound(set.ranges.begin(), set.ranges.end(), c.code,
                         [](char32_t code, CodeRange range) { return code < range.first; });
    member = after != set.ranges.begin() && c.code <= std::prev(after)->last;
  }
  return member && set.without.find(c.code) == std::u32string_view::npos;
}

// The byte-level alphabet writes every byte as a letter, and these bytes as themselves: digits,
// and superscripts and fractions of Latin-1, which Rust counts as numeric too.
bool IsMappedDigit(char letter) {
  const auto byte = static_cast<uint8_t>(letter);
  return (byte >= '0' && byte <= '9') || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 ||
         (byte >= 0xBC && byte <= 0xBE);
}

char32_t FoldCase(char32_t code) {
  if (code >= 'A' && code <= 'Z')
    return code + ('a' - 'A');
  return code == kLongS ? U's' : code;
}

}  // namespace

RuleMatcher::Char RuleMatcher::At(size_t position) const {
  const auto byte = static_cast<uint8_t>(text_[position]);
  if (byte < 0x80)
    return {byte, classes_.Of(byte), 1};
  const Utf8Char c = DecodeUtf8(text_, position);
  return {c.code, classes_.Of(c.code), c.length};
}

size_t RuleMatcher::Match(const SplitRule& rule, size_t position, size_t gap_begin) const {
  switch (rule.shape) {
    case Shape::kRun:
      return MatchPrefixed(rule, position);
    case Shape::kCasedWord:
      return MatchCasedWord(rule, position);
    case Shape::kContraction:
    case Shape::kContractionFold:
      return MatchContraction(rule.shape, position);
    case Shape::kBreaks:
      return MatchBreaks(position);
    case Shape::kBlanks:
      return MatchBlanks(position);
    case Shape::kBlanksAtEnd:
      return MatchBlanksAtEnd(position, gap_begin);
    case Shape::kMappedDigits:
      return MatchMappedDigits(position);
    case Shape::kDigitTriple:
      return MatchDigitTriple(position);
  }
  return position;
}

size_t RuleMatcher::MatchPrefixed(const SplitRule& rule, size_t position) const {
  if (rule.prefix_use != Prefix::kNone) {
    const Char c = At(position);
    if (Has(rule.prefix, c)) {
      const size_t body = position + c.length;
      if (const size_t end = MatchBody(rule, body); end > body)
        return end;
    }
  }
  return rule.prefix_use == Prefix::kRequired ? position : MatchBody(rule, position);
}

size_t RuleMatcher::MatchBody(const SplitRule& rule, size_t position) const {
  const size_t end = RunEnd(rule.body, position, rule.maximum);
  if (end == position || rule.suffix.classes == 0)
    return end;
  return RunEnd(rule.suffix, end);
}

// [capital]*[small]+ at `position`; `position` when there is none. When no small letter follows
// the capitals, the last of them that is also a small letter is given back to be the one.
size_t RuleMatcher::MatchCasedBody(size_t position) const {
  size_t end = position;
  size_t last_both_end = position;
  while (end < text_.size()) {
    const Char c = At(end);
    if ((c.classes & kCapital) == 0)
      break;
    end += c.length;
    if ((c.classes & kSmall) != 0)
      last_both_end = end;
  }
  const size_t small_end = RunEnd(CharSet{kSmall}, end);
  return small_end > end ? small_end : last_both_end;
}

// The first alternative, [capital]*[small]+, with and without the prefix; then the second,
// [capital]+[small]*, the same way.
size_t RuleMatcher::MatchCasedWord(const SplitRule& rule, size_t position) const {
  const Char first = At(position);
  const size_t starts[2] = {Has(rule.prefix, first) ? position + first.length : position, position};
  size_t end = position;
  for (size_t start : starts) {
    if (const size_t body = MatchCasedBody(start); end == position && body > start)
      end = body;
  }
  for (size_t start : starts) {
    if (const size_t capitals = RunEnd(CharSet{kCapital}, start);
        end == position && capitals > start)
      end = RunEnd(CharSet{kSmall}, capitals);
  }
  if (end == position || !rule.contraction_suffix)
    return end;
  return MatchContraction(Shape::kContractionFold, end);
}

size_t RuleMatcher::MatchContraction(Shape shape, size_t position) const {
  if (position >= text_.size() || text_[position] != '\'')
    return position;
  char32_t letters[2] = {0, 0};
  size_t ends[2] = {position, position};
  size_t at = position + 1;
  for (int i = 0; i < 2 && at < text_.size(); ++i) {
    const Char c = At(at);
    at += c.length;
    letters[i] = shape == Shape::kContractionFold ? FoldCase(c.code) : c.code;
    ends[i] = at;
  }
  if (letters[0] == 's' || letters[0] == 't' || letters[0] == 'm' || letters[0] == 'd')
    return ends[0];
  const bool two = (letters[0] == 'r' && letters[1] == 'e') ||
                   (letters[0] == 'v' && letters[1] == 'e') ||
                   (letters[0] == 'l' && letters[1] == 'l');
  return two ? ends[1] : position;
}

size_t RuleMatcher::MatchBreaks(size_t position) const {
  size_t last_break = position;
  for (size_t at = position; at < text_.size();) {
    const Char c = At(at);
    if ((c.classes & kSpace) == 0)
      break;
    at += c.length;
    if ((c.classes & kNewline) != 0)
      last_break = at;
  }
  return last_break;
}

// All the white space at the end of the text; elsewhere all but the last character, which may
// belong to the next word; a single one only when no other rule took it.
size_t RuleMatcher::MatchBlanks(size_t position) const {
  size_t end = position;
  size_t last = position;
  while (end < text_.size()) {
    const Char c = At(end);
    if ((c.classes & kSpace) == 0)
      break;
    last = end;
    end += c.length;
  }
  return end == text_.size() || last == position ? end : last;
}

size_t RuleMatcher::MatchBlanksAtEnd(size_t position, size_t gap_begin) const {
  // A white space just before, left unmatched, means that this run was already followed to its end.
  if (position > gap_begin) {
    size_t before = position - 1;
    while (before > gap_begin && (static_cast<uint8_t>(text_[before]) & 0xC0) == 0x80)
      --before;
    if ((At(before).classes & kSpace) != 0)
      return position;
  }
  const size_t end = RunEnd(CharSet{kSpace}, position);
  return end == text_.size() ? end : position;
}

size_t RuleMatcher::MatchMappedDigits(size_t position) const {
  size_t end = position;
  while (end < text_.size() && IsMappedDigit(text_[end]))
    ++end;
  return end;
}

size_t RuleMatcher::MatchDigitTriple(size_t position) const {
  for (size_t at = position; at < position + 3; ++at) {
    if (at >= text_.size() || text_[at] < '0' || text_[at] > '9')
      return position;
  }
  return position + 3;
}

size_t RuleMatcher::RunEnd(const CharSet& set, size_t position, uint32_t maximum) const {
  for (uint32_t count = 0; count < maximum && position < text_.size(); ++count) {
    const Char c = At(position);
    if (!Has(set, c))
      break;
    position += c.length;
  }
  return position;
}

}  // namespace tenon

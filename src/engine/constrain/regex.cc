#include "engine/constrain/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Groups inside groups; the parser recurses.
constexpr int kMaxNesting = 200;
// Bounds of {m,n}.
constexpr int64_t kMaxCount = 1'000'000;
// Copies of a part that may be empty, which can't be counted otherwise.
constexpr int64_t kMaxCopies = 64;

const CodeSet& Digits() {
  static const CodeSet set = {{'0', '9'}};
  return set;
}
const CodeSet& WordCharacters() {
  static const CodeSet set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
// ECMA-262's white space and line terminators.
const CodeSet& WhiteSpace() {
  static const CodeSet set = {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},
                              {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                              {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                              {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
// The white space on which all dialects agree.
const CodeSet& PlainWhiteSpace() {
  static const CodeSet set = {{0x09, 0x0D}, {' ', ' '}};
  return set;
}
const CodeSet& LineEnds() {
  static const CodeSet set = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

CodeSet AsciiOnly(const CodeSet& set) {
  CodeSet out;
  for (const CodeRange& range : set.Ranges()) {
    if (range.low < 0x80)
      out.Add({range.low, std::min<uint32_t>(range.high, 0x7F)});
  }
  return out;
}

struct Piece {
  Grammar::Term term = 0;
  bool may_be_empty = false;
};

class RegexParser {
 public:
  RegexParser(Grammar& grammar, std::string_view pattern, TextForm form, RegexMatch match)
      : grammar_(grammar), pattern_(pattern), form_(form), match_(match) {}

  Result<Grammar::Term> Parse() {
    const Piece piece = Alternatives(0);
    if (status_.ok() && at_ < pattern_.size())
      Fail("found ')', which closes nothing");
    TENON_RETURN_IF_ERROR(status_);
    return piece.term;
  }

 private:
  bool AtEnd() const { return !status_.ok() || at_ >= pattern_.size(); }
  char Peek() const { return AtEnd() ? '\0' : pattern_[at_]; }
  bool Take(char c) {
    if (AtEnd() || pattern_[at_] != c)
      return false;
    ++at_;
    return true;
  }
  bool TakeText(std::string_view text) {
    if (AtEnd() || !pattern_.substr(at_).starts_with(text))
      return false;
    at_ += text.size();
    return true;
  }
  void Fail(const std::string& message, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (status_.ok())
      status_ = MakeError(code, fmt::format("{} (at byte {} of the expression)", message, at_));
  }

  Piece Alternatives(int nesting) {
    if (nesting > kMaxNesting)
      Fail(fmt::format("groups are nested deeper than {}", kMaxNesting));
    std::vector<Grammar::Term> parts;
    bool may_be_empty = false;
    do {
      const Piece piece = Branch(nesting);
      parts.push_back(piece.term);
      may_be_empty |= piece.may_be_empty;
    } while (Take('|'));
    return {grammar_.Either(std::move(parts)), may_be_empty};
  }

  Piece Branch(int nesting) {
    const bool is_outer = nesting == 0 && match_ == RegexMatch::kAnywhere;
    const bool at_start = Take('^');
    if (at_start && nesting > 0)
      Fail("'^' inside a group is not supported", ErrorCode::kUnsupported);
    std::vector<Grammar::Term> parts;
    Piece out{0, true};
    if (is_outer && !at_start)
      parts.push_back(Anything());
    bool at_end = false;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (at_end)
        Fail("'$' is supported at the end only", ErrorCode::kUnsupported);
      if (Take('$')) {
        at_end = true;
        continue;
      }
      const Piece piece = Quantified(nesting);
      parts.push_back(piece.term);
      out.may_be_empty &= piece.may_be_empty;
    }
    if (at_end && nesting > 0)
      Fail("'$' inside a group is not supported", ErrorCode::kUnsupported);
    if (is_outer && !at_end)
      parts.push_back(Anything());
    out.term = grammar_.Sequence(std::move(parts));
    return out;
  }

  Grammar::Term Anything() {
    if (form_ == TextForm::kJsonString)
      return grammar_.StringCharacters(0, Grammar::kNoLimit);
    return grammar_.Repeat(grammar_.CodePoints(0, kLastCodePoint), 0, Grammar::kNoLimit);
  }

  Piece Quantified(int nesting) {
    Piece piece = Atom(nesting);
    int64_t min = 1;
    int64_t max = 1;
    if (Take('*')) {
      min = 0;
      max = Grammar::kNoLimit;
    } else if (Take('+')) {
      max = Grammar::kNoLimit;
    } else if (Take('?')) {
      min = 0;
    } else if (Take('{')) {
      ReadCounts(min, max);
    } else {
      return piece;
    }
    Take('?');  // which of the matches is found first does not matter
    if (Peek() == '*' || Peek() == '+' || Peek() == '?' || Peek() == '{')
      Fail("a quantifier after a quantifier");
    return status_.ok() ? Repeated(piece, min, max) : piece;
  }

  Piece Repeated(const Piece& piece, int64_t min, int64_t max) {
    const bool may_be_empty = min == 0 || piece.may_be_empty;
    if (!piece.may_be_empty || max == 1 || max == 0)
      return {grammar_.Repeat(piece.term, piece.may_be_empty && max == 1 ? 0 : min, max),
              may_be_empty};
    if (max == Grammar::kNoLimit)
      return {grammar_.Repeat(piece.term, 0, max), true};
    if (max > kMaxCopies) {
      Fail(fmt::format("more than {} repetitions of something that may be empty", kMaxCopies),
           ErrorCode::kUnsupported);
      return piece;
    }
    const Grammar::Term shared = grammar_.Share(piece.term);
    return {grammar_.Sequence(std::vector<Grammar::Term>(static_cast<size_t>(max), shared)), true};
  }

  void ReadCounts(int64_t& min, int64_t& max) {
    min = ReadCount();
    max = min;
    if (Take(','))
      max = Peek() == '}' ? Grammar::kNoLimit : ReadCount();
    if (!Take('}'))
      Fail("expected '}' after a count");
    if (max != Grammar::kNoLimit && max < min)
      Fail("the counts of {m,n} are in the wrong order");
  }

  int64_t ReadCount() {
    int64_t count = 0;
    const size_t first = at_;
    while (Peek() >= '0' && Peek() <= '9' && count <= kMaxCount)
      count = count * 10 + (pattern_[at_++] - '0');
    if (at_ == first)
      Fail("expected a number after '{'");
    if (count > kMaxCount)
      Fail(fmt::format("a count is above {}", kMaxCount));
    return count;
  }

  Piece Atom(int nesting) {
    if (TakeText("(?:") ||
        (Peek() == '(' && !pattern_.substr(at_).starts_with("(?") && Take('('))) {
      const Piece piece = Alternatives(nesting + 1);
      if (!Take(')'))
        Fail("a '(' is not closed");
      return piece;
    }
    if (Peek() == '(')
      Fail("look-around and named groups are not supported", ErrorCode::kUnsupported);
    if (Peek() == '*' || Peek() == '+' || Peek() == '?' || Peek() == '{')
      Fail("a quantifier with nothing before it");
    if (AtEnd())
      return {};
    return {OneCharacter(grammar_, AtomSet(), form_), false};
  }

  CodeSet AtomSet() {
    if (Take('.'))
      return LineEnds().Complement();
    if (Take('['))
      return Class();
    if (Take('\\'))
      return Escape();
    const uint32_t code = CodePoint();
    return {{code, code}};
  }

  CodeSet Class() {
    const bool is_negated = Take('^');
    CodeSet set;
    while (!AtEnd() && Peek() != ']') {
      const CodeSet low = ClassMember();
      const bool is_range = Peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) {
        set.Add(low);
        continue;
      }
      ++at_;
      AddRange(low, ClassMember(), set);
    }
    if (!Take(']'))
      Fail("a '[' is not closed");
    return is_negated ? set.Complement() : set;
  }

  void AddRange(const CodeSet& low, const CodeSet& high, CodeSet& set) {
    const auto first = low.Ranges();
    const auto last = high.Ranges();
    const auto is_one = [](const std::vector<CodeRange>& ranges) {
      return ranges.size() == 1 && ranges.front().low == ranges.front().high;
    };
    if (!status_.ok())
      return;
    if (!is_one(first) || !is_one(last) || first.front().low > last.front().low)
      return Fail("a range in brackets that is none");
    set.Add({first.front().low, last.front().low});
  }

  CodeSet ClassMember() {
    if (Take('\\'))
      return Take('b') ? CodeSet{{0x08, 0x08}} : Escape();
    const uint32_t code = CodePoint();
    return {{code, code}};
  }

  CodeSet Escape() {
    const char c = Peek();
    if (AtEnd()) {
      Fail("'\\' at the end");
      return {};
    }
    ++at_;
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return AsciiOnly(Digits().Complement());
      case 'w':
        return WordCharacters();
      case 'W':
        return AsciiOnly(WordCharacters().Complement());
      case 's':
        return PlainWhiteSpace();
      case 'S':
        return WhiteSpace().Complement();
      default:
        return EscapedCharacter(c);
    }
  }

  CodeSet EscapedCharacter(char c) {
    constexpr std::string_view kLetters = "tnrfv";
    constexpr std::string_view kMeanings = "\t\n\r\f\v";
    uint32_t code = static_cast<uint8_t>(c);
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      code = static_cast<uint8_t>(kMeanings[at]);
    } else if (c == 'x' || c == 'u') {
      code = Hex(c == 'x' ? 2 : 4);
    } else if (c == '0') {
      code = 0;
    } else if (code >= 0x80 || (c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z')) {
      Fail(fmt::format("'\\{}' is not supported", c), ErrorCode::kUnsupported);
    }
    return {{code, code}};
  }

  uint32_t Hex(size_t digits) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = Peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) {
        Fail(fmt::format("expected {} hexadecimal digits", digits));
        return 0;
      }
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  // The next character of the pattern, which is UTF-8.
  uint32_t CodePoint() {
    if (AtEnd()) {
      Fail("ends too early");
      return 0;
    }
    const auto lead = static_cast<uint8_t>(pattern_[at_++]);
    if (lead < 0x80)
      return lead;
    const int tails = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t code = lead & (0x3FU >> tails);
    for (int i = 0; i < tails && at_ < pattern_.size(); ++i)
      code = (code << 6) | (static_cast<uint8_t>(pattern_[at_++]) & 0x3FU);
    return std::min(code, kLastCodePoint);
  }

  Grammar& grammar_;
  std::string_view pattern_;
  TextForm form_;
  RegexMatch match_;
  size_t at_ = 0;
  Status status_;
};

// How JSON writes a character that can't stand for itself.
std::string JsonEscape(uint32_t code) {
  constexpr std::string_view kPlain = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  if (const size_t at = kPlain.find(static_cast<char>(code)); at != std::string_view::npos)
    return {'\\', kLetters[at]};
  return fmt::format("\\u{:04x}", code);
}

}  // namespace

Grammar::Term OneCharacter(Grammar& grammar, const CodeSet& set, TextForm form) {
  std::vector<Grammar::Term> parts;
  ByteSet ascii;
  std::vector<std::string> escapes;
  for (const CodeRange& range : set.Ranges()) {
    for (uint32_t code = range.low; code <= std::min<uint32_t>(range.high, 0x7F); ++code) {
      const bool is_plain =
          form == TextForm::kPlain || (code >= 0x20 && code != '"' && code != '\\');
      if (is_plain)
        ascii.set(code);
      else
        escapes.push_back(JsonEscape(code));
    }
    if (range.high >= 0x80)
      parts.push_back(grammar.CodePoints(std::max<uint32_t>(range.low, 0x80), range.high));
  }
  if (ascii.any())
    parts.push_back(grammar.Bytes(ascii));
  if (!escapes.empty())
    parts.push_back(grammar.AnyOf(std::move(escapes)));
  return grammar.Either(std::move(parts));
}

Result<Grammar::Term> CompileRegex(Grammar& grammar, std::string_view pattern, TextForm form,
                                   RegexMatch match) {
  return RegexParser(grammar, pattern, form, match).Parse();
}

}  // namespace tenon

#include "model/chat/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "model/chat/string_escapes.h"
#include "model/chat/template_failure.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

constexpr size_t kNone = std::string_view::npos;

// Line breaks as "\n" only, one at the very end dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n')
        ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n')
    out.pop_back();
  return out;
}

// An ASCII digit: numbers are written in no others.
bool IsDigitChar(char c) {
  return c >= '0' && c <= '9';
}
// Reads data and tags in turn, as the states of jinja2's lexer do.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(NormalizeNewlines(source)) {}

  std::vector<Token> Run() {
    while (pos_ < text_.size())
      LexData();
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(text_).substr(pos_); }
  bool At(std::string_view what) const { return Rest().substr(0, what.size()) == what; }

  void Add(TokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text), 0, 0});
  }

  // Moves past `count` bytes, counting their lines.
  void Advance(size_t count) {
    const std::string_view passed = Rest().substr(0, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    line_starting_ = !passed.empty() && passed.back() == '\n';
    pos_ += passed.size();
  }

  size_t SpaceAt(size_t pos) const {
    const std::string_view rest = std::string_view(text_).substr(pos);
    return rest.size() - StripLeft(rest).size();
  }

  // Text up to the next tag, then the tag.
  void LexData() {
    const size_t tag = FindTag(pos_);
    if (tag == kNone) {
      Add(TokenKind::kData, std::string(Rest()));
      Advance(Rest().size());
      return;
    }
    const char opener = text_[tag + 1];
    const size_t raw = opener == '%' ? RawBeginLength(tag) : 0;
    EmitData(tag, opener);
    if (raw > 0) {
      Advance(raw);
      LexRaw();
      return;
    }
    Advance(2 + SignLength(tag + 2));
    if (opener == '#')
      LexComment();
    else
      LexCode(opener == '%' ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
  }

  // The place of the next {{, {% or {#.
  size_t FindTag(size_t from) const {
    for (size_t at = text_.find('{', from); at != kNone; at = text_.find('{', at + 1)) {
      const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#')
        return at;
    }
    return kNone;
  }

  // 1 if a - or + stands there: it controls the white space at a tag.
  size_t SignLength(size_t pos) const {
    return pos < text_.size() && (text_[pos] == '-' || text_[pos] == '+') ? 1 : 0;
  }

  // The text before the tag at `tag`, stripped as the tag's sign asks.
  void EmitData(size_t tag, char opener) {
    const std::string_view data = Rest().substr(0, tag - pos_);
    const char sign = SignLength(tag + 2) == 1 ? text_[tag + 2] : '\0';
    const std::string_view kept = StripBeforeTag(data, sign, opener);
    if (!kept.empty())
      Add(TokenKind::kData, std::string(kept));
    Advance(data.size());
  }

  // A minus strips all white space; a tag alone at the start of its line loses the indent, unless
  // a plus keeps it or it is {{ }}.
  std::string_view StripBeforeTag(std::string_view data, char sign, char opener) const {
    if (sign == '-')
      return StripRight(data);
    if (sign == '+' || opener == '{')
      return data;
    const size_t newline = data.rfind('\n');
    const size_t line_start = newline == kNone ? 0 : newline + 1;
    // pos_ still stands before the data, so line_starting_ tells what came before it.
    const bool whole_line = line_start > 0 || line_starting_;
    const bool blank = StripLeft(data.substr(line_start)).empty();
    return whole_line && blank ? data.substr(0, line_start) : data;
  }

  // The length of "{%- raw -%}" at `tag`; 0 if something else stands there.
  size_t RawBeginLength(size_t tag) const {
    size_t pos = tag + 2 + SignLength(tag + 2);
    pos += SpaceAt(pos);
    if (text_.compare(pos, 3, "raw") != 0)
      return 0;
    pos += 3;
    pos += SpaceAt(pos);
    if (text_.compare(pos, 3, "-%}") == 0)
      return pos + 3 + SpaceAt(pos + 3) - tag;
    return text_.compare(pos, 2, "%}") == 0 ? pos + 2 - tag : 0;
  }

  // The length of "endraw %}" from `pos` on (after the tag's sign); 0 if it is not that.
  size_t RawEndLength(size_t pos) const {
    const size_t start = pos;
    pos += SpaceAt(pos);
    if (text_.compare(pos, 6, "endraw") != 0)
      return 0;
    pos += 6;
    pos += SpaceAt(pos);
    const size_t end = TagEndLength(pos, "%}");
    return end == 0 ? 0 : pos + end - start;
  }

  // The text of a raw block, up to the endraw tag.
  void LexRaw() {
    for (size_t tag = text_.find("{%", pos_); tag != kNone; tag = text_.find("{%", tag + 1)) {
      const size_t after_sign = tag + 2 + SignLength(tag + 2);
      const size_t end = RawEndLength(after_sign);
      if (end == 0)
        continue;
      EmitData(tag, '%');
      Advance(after_sign - tag + end);
      return;
    }
    Fail("Missing end of raw directive", line_);
  }

  // Past the end of a comment.
  void LexComment() {
    for (size_t end = text_.find("#}", pos_); end != kNone; end = text_.find("#}", end + 1)) {
      size_t start = end;
      if (start > pos_ && (text_[start - 1] == '-' || text_[start - 1] == '+'))
        --start;
      Advance(start + TagEndLength(start, "#}") - pos_);
      return;
    }
    Fail("Missing end of comment tag", line_);
  }

  // "%}" with the line break after it, "-%}" with all white space after it, or "+%}".
  size_t TagEndLength(size_t pos, std::string_view end) const {
    const std::string_view rest = std::string_view(text_).substr(std::min(pos, text_.size()));
    if (rest.substr(0, 1) == "-" && rest.substr(1, 2) == end)
      return 3 + SpaceAt(pos + 3);
    if (rest.substr(0, 1) == "+" && rest.substr(1, 2) == end)
      return 3;
    if (rest.substr(0, 2) != end)
      return 0;
    return rest.substr(2, 1) == "\n" ? 3 : 2;
  }

  // The length of the end of a tag at pos_; 0 if it does not end here.
  size_t CodeEndLength(TokenKind end) const {
    if (end == TokenKind::kBlockEnd)
      return TagEndLength(pos_, "%}");
    if (At("-}}"))
      return 3 + SpaceAt(pos_ + 3);
    return At("}}") ? 2 : 0;
  }

  // The tokens of one {% ... %} or {{ ... }}.
  void LexCode(TokenKind end) {
    Add(end == TokenKind::kBlockEnd ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    std::string open;  // the closing brackets that are due
    while (pos_ < text_.size()) {
      if (const size_t length = open.empty() ? CodeEndLength(end) : 0; length > 0) {
        Add(end, "");
        Advance(length);
        return;
      }
      LexToken(open);
    }
  }

  // White space, or one token of an expression.
  void LexToken(std::string& open) {
    if (const size_t space = SpaceAt(pos_); space > 0) {
      Advance(space);
      return;
    }
    const char c = text_[pos_];
    if (IsDigitChar(c)) {
      LexNumber();
    } else if (c == '"' || c == '\'') {
      LexString(c);
    } else if (const size_t length = NameLength(); length > 0) {
      LexName(length);
    } else {
      LexOperator(open);
    }
  }

  // The length of the run of word characters at pos_.
  size_t NameLength() const {
    size_t pos = pos_;
    while (pos < text_.size()) {
      size_t next = pos;
      if (!IsIdentifierPart(DecodeAt(text_, next)))
        break;
      pos = next;
    }
    return pos - pos_;
  }

  void LexName(size_t length) {
    const std::string_view name = Rest().substr(0, length);
    if (!IsIdentifier(name))
      Fail("Invalid character in identifier", line_);
    Add(TokenKind::kName, std::string(name));
    Advance(length);
  }

  // A quoted literal, which may span lines.
  void LexString(char quote) {
    for (size_t pos = pos_ + 1; pos < text_.size(); ++pos) {
      if (text_[pos] == '\\') {
        ++pos;
      } else if (text_[pos] == quote) {
        const std::string_view body = std::string_view(text_).substr(pos_ + 1, pos - pos_ - 1);
        Add(TokenKind::kString, ResolveEscapes(body, line_));
        Advance(pos + 1 - pos_);
        return;
      }
    }
    UnexpectedChar();
  }

  [[noreturn]] void UnexpectedChar() const {
    size_t next = pos_;
    DecodeAt(text_, next);
    Fail(fmt::format("unexpected char '{}' at {}", text_.substr(pos_, next - pos_),
                     CountCodePoints(std::string_view(text_).substr(0, pos_))),
         line_);
  }

  // The longest operator that stands here.
  void LexOperator(std::string& open) {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    size_t length = 0;
    for (const std::string_view candidate : kDouble)
      length = At(candidate) ? 2 : length;
    if (length == 0 && kSingle.find(text_[pos_]) != kNone)
      length = 1;
    if (length == 0)
      UnexpectedChar();
    const std::string_view op = Rest().substr(0, length);
    Balance(op, open);
    Add(TokenKind::kOperator, std::string(op));
    Advance(length);
  }

  // Brackets must match: while one is open, }} and %} do not end the tag.
  void Balance(std::string_view op, std::string& open) const {
    if (op == "{" || op == "(" || op == "[") {
      open.push_back(op == "{" ? '}' : op == "(" ? ')' : ']');
    } else if (op == "}" || op == ")" || op == "]") {
      if (open.empty())
        Fail(fmt::format("unexpected '{}'", op), line_);
      if (open.back() != op.front())
        Fail(fmt::format("unexpected '{}', expected '{}'", op, open.back()), line_);
      open.pop_back();
    }
  }

  // The end of a run of digits that single underscores may part; `pos` if none starts there.
  template <class IsDigitOfBase>
  size_t DigitsEnd(size_t pos, const IsDigitOfBase& is_digit) const {
    while (pos < text_.size()) {
      if (is_digit(text_[pos]))
        ++pos;
      else if (text_[pos] == '_' && pos + 1 < text_.size() && is_digit(text_[pos + 1]))
        pos += 2;
      else
        break;
    }
    return pos;
  }

  // The end of a float literal at pos_; pos_ if there is none.
  size_t FloatEnd() const {
    if (pos_ > 0 && text_[pos_ - 1] == '.')
      return pos_;  // in "a.0.1" the parts are integers
    size_t pos = DigitsEnd(pos_, IsDigitChar);
    bool is_float = false;
    if (pos + 1 < text_.size() && text_[pos] == '.' && IsDigitChar(text_[pos + 1])) {
      pos = DigitsEnd(pos + 1, IsDigitChar);
      is_float = true;
    }
    if (pos < text_.size() && (text_[pos] == 'e' || text_[pos] == 'E')) {
      const size_t digits = pos + 1 + SignLength(pos + 1);
      if (digits < text_.size() && IsDigitChar(text_[digits])) {
        pos = DigitsEnd(digits, IsDigitChar);
        is_float = true;
      }
    }
    return is_float ? pos : pos_;
  }

  void LexNumber() {
    if (const size_t end = FloatEnd(); end > pos_) {
      std::string digits(Rest().substr(0, end - pos_));
      std::erase(digits, '_');
      Add(TokenKind::kFloat, "");
      // Out of range is what Python makes of it: inf or 0.
      tokens_.back().real = std::strtod(digits.c_str(), nullptr);
      Advance(end - pos_);
      return;
    }
    LexInteger();
  }

  // Decimal, or with 0b, 0o or 0x; a decimal one has no leading zeros.
  void LexInteger() {
    int base = 10;
    size_t start = pos_;
    size_t end = 0;
    const char marker = pos_ + 1 < text_.size() ? static_cast<char>(text_[pos_ + 1] | 0x20) : '\0';
    if (text_[pos_] == '0' && (marker == 'b' || marker == 'o' || marker == 'x')) {
      base = marker == 'b' ? 2 : marker == 'o' ? 8 : 16;
      start = pos_ + 2;
      if (start < text_.size() && text_[start] == '_')
        ++start;
      end = DigitsEnd(start, [base](char c) { return DigitValue(c) < base; });
    }
    if (end <= start) {
      base = 10;
      start = pos_;
      end = text_[pos_] == '0' ? DigitsEnd(pos_, [](char c) { return c == '0'; })
                               : DigitsEnd(pos_, IsDigitChar);
    }
    AddInteger(std::string(std::string_view(text_).substr(start, end - start)), base);
    Advance(end - pos_);
  }

  static int DigitValue(char c) {
    if (IsDigitChar(c))
      return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
  }

  void AddInteger(std::string digits, int base) {
    std::erase(digits, '_');
    Add(TokenKind::kInteger, "");
    const char* const last = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), last, tokens_.back().integer, base);
    if (parsed.ec != std::errc() || parsed.ptr != last)
      Fail("integer literal outside the range of 64 bits", line_);
  }

  std::string text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace tenon::chat

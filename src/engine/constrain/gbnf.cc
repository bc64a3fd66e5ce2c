#include "engine/constrain/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/constrain/code_set.h"
#include "engine/constrain/regex.h"

namespace tenon {
namespace {

// Far beyond grammars that are written by hand or made of a schema.
constexpr size_t kMaxBytes = size_t{256} << 10;
// Groups inside groups; the parser recurses.
constexpr int kMaxNesting = 200;
// Bounds of {m,n}.
constexpr int64_t kMaxCount = 1'000'000;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

// Whether white space may go over the end of a line.
enum class Lines : uint8_t { kOne, kMany };

class GbnfParser {
 public:
  GbnfParser(Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  Result<Grammar::Term> Parse() {
    if (text_.size() > kMaxBytes)
      return InvalidArgument(
          fmt::format("found {} bytes, expected at most {}", text_.size(), kMaxBytes));
    SkipSpace(Lines::kMany);
    while (status_.ok() && at_ < text_.size())
      ReadRule();
    CheckRules();
    TENON_RETURN_IF_ERROR(status_);
    return grammar_.Call(rules_.find("root")->second.rule);
  }

 private:
  struct Rule {
    Grammar::Rule rule = 0;
    bool is_defined = false;
    size_t first_use = 0;  // byte of the text
  };

  // NUL stands for the end; in the text it is refused wherever it is met.
  char Peek() const { return status_.ok() && at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    if (Peek() != c || c == '\0')
      return false;
    ++at_;
    return true;
  }

  void FailAt(size_t at, const std::string& message, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (!status_.ok())
      return;
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::string_view in_line = before.substr(before.rfind('\n') + 1);
    const auto column = 1 + std::ranges::count_if(in_line, [](char c) {
                          return (static_cast<uint8_t>(c) >> 6) != 2;
                        });
    status_ = MakeError(code, fmt::format("{} (line {}, column {})", message, line, column));
  }
  void Fail(const std::string& message) { FailAt(at_, message); }
  // "expected X, found Y".
  void FailExpecting(std::string_view what) {
    if (at_ >= text_.size())
      return Fail(fmt::format("expected {}, found the end", what));
    if (text_[at_] == '\n' || text_[at_] == '\r')
      return Fail(fmt::format("expected {}, found the end of the line", what));
    size_t length = 1;
    while (at_ + length < text_.size() && (static_cast<uint8_t>(text_[at_ + length]) >> 6) == 2)
      ++length;
    Fail(fmt::format("expected {}, found '{}'", what, text_.substr(at_, length)));
  }

  // And comments.
  void SkipSpace(Lines lines) {
    while (true) {
      const char c = Peek();
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines == Lines::kMany && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view ReadName() {
    const size_t start = at_;
    while (IsNameByte(Peek()))
      ++at_;
    if (at_ == start)
      FailExpecting("a rule's name");
    return text_.substr(start, at_ - start);
  }

  Rule& RuleOf(std::string_view name, size_t used_at) {
    const auto [found, is_new] = rules_.try_emplace(std::string(name));
    if (is_new)
      found->second = {grammar_.DeclareRule(), false, used_at};
    return found->second;
  }

  void ReadRule() {
    const size_t start = at_;
    const std::string_view name = ReadName();
    SkipSpace(Lines::kOne);
    if (text_.substr(at_, 3) != "::=")
      return FailExpecting("'::=' after the rule's name");
    at_ += 3;
    SkipSpace(Lines::kMany);
    const Grammar::Term term = Alternatives(0);
    if (at_ < text_.size() && Peek() != '\r' && Peek() != '\n')
      FailExpecting("an item or the end of the line");
    SkipSpace(Lines::kMany);
    if (!status_.ok())
      return;
    Rule& rule = RuleOf(name, start);
    if (rule.is_defined)
      return FailAt(start, fmt::format("the rule '{}' is already defined", name));
    rule.is_defined = true;
    grammar_.DefineRule(rule.rule, term);
  }

  void CheckRules() {
    for (const auto& [name, rule] : rules_) {
      if (!rule.is_defined)
        FailAt(rule.first_use, fmt::format("the rule '{}' is not defined", name));
    }
    if (status_.ok() && !rules_.contains("root"))
      FailAt(text_.size(), "the rule 'root' is missing");
  }

  Grammar::Term Alternatives(int nesting) {
    if (nesting > kMaxNesting)
      Fail(fmt::format("groups are nested deeper than {}", kMaxNesting));
    std::vector<Grammar::Term> parts;
    do {
      if (!parts.empty())
        SkipSpace(Lines::kMany);
      parts.push_back(Branch(nesting));
    } while (Take('|'));
    return grammar_.Either(std::move(parts));
  }

  Grammar::Term Branch(int nesting) {
    const Lines lines = nesting == 0 ? Lines::kOne : Lines::kMany;
    std::vector<Grammar::Term> parts;
    while (StartsItem()) {
      Grammar::Term item = Item(nesting);
      SkipSpace(lines);
      while (StartsRepetition()) {
        item = Repeated(item);
        SkipSpace(lines);
      }
      parts.push_back(item);
    }
    return grammar_.Sequence(std::move(parts));
  }

  bool StartsItem() const {
    const char c = Peek();
    return IsNameByte(c) || c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!';
  }
  bool StartsRepetition() const {
    const char c = Peek();
    return c == '*' || c == '+' || c == '?' || c == '{';
  }

  Grammar::Term Item(int nesting) {
    if (Peek() == '"')
      return Text();
    if (Peek() == '[')
      return CharacterClass();
    if (Take('.'))
      return OneCharacter(grammar_, {{0, kLastCodePoint}}, TextForm::kPlain);
    if (Peek() == '<' || Peek() == '!') {
      FailAt(at_, "terms of token ids are not supported", ErrorCode::kUnsupported);
      return 0;
    }
    if (Take('(')) {
      SkipSpace(Lines::kMany);
      const Grammar::Term group = Alternatives(nesting + 1);
      if (!Take(')'))
        FailExpecting("an item or ')'");
      return group;
    }
    const size_t start = at_;
    const std::string_view name = ReadName();
    return grammar_.Call(RuleOf(name, start).rule);
  }

  Grammar::Term Text() {
    ++at_;
    std::vector<Grammar::Term> parts;
    while (status_.ok() && !Take('"')) {
      const size_t start = at_;
      const uint32_t code = Character("'\"' at the end of the text");
      if (code >= 0xD800 && code <= 0xDFFF)
        FailAt(start, "a surrogate is no character");
      parts.push_back(grammar_.CodePoints(code, code));
    }
    return grammar_.Sequence(std::move(parts));
  }

  Grammar::Term CharacterClass() {
    const size_t start = at_++;
    const bool is_negated = Take('^');
    CodeSet set;
    bool is_empty = true;
    while (status_.ok() && !Take(']')) {
      const size_t range_start = at_;
      const uint32_t low = Character("']' at the end of the class");
      uint32_t high = low;
      const bool is_range = Peek() == '-' && text_.substr(at_, 2) != "-]";
      if (is_range) {
        ++at_;
        high = Character("']' at the end of the class");
      }
      if (low > high)
        FailAt(range_start, "a range begins after its end");
      set.Add({low, high});
      is_empty = false;
    }
    if (is_empty)
      FailAt(start, "a class without characters");
    return OneCharacter(grammar_, is_negated ? set.Complement() : set, TextForm::kPlain);
  }

  // One code point of a text or a class, as it is or escaped.
  uint32_t Character(std::string_view else_expected) {
    if (at_ >= text_.size()) {
      FailExpecting(else_expected);
      return 0;
    }
    return Take('\\') ? Escape() : PlainCharacter();
  }

  uint32_t PlainCharacter() {
    const auto lead = static_cast<uint8_t>(text_[at_]);
    const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    uint32_t code = length == 1 ? lead : lead & (0x7FU >> length);
    bool is_whole = lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4 && at_ + length <= text_.size());
    for (size_t i = 1; is_whole && i < length; ++i) {
      const auto byte = static_cast<uint8_t>(text_[at_ + i]);
      is_whole = (byte >> 6) == 2;
      code = code << 6 | (byte & 0x3FU);
    }
    if (!is_whole)
      Fail("bytes that are no UTF-8");
    at_ += is_whole ? length : 0;
    return code;
  }

  uint32_t Escape() {
    const size_t start = at_ - 1;
    const char c = Peek();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return HexCode(2);
      case 'u':
        return HexCode(4);
      case 'U':
        return HexCode(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
        return static_cast<uint8_t>(c);
      default:
        FailAt(start, "an unknown escape");
        return 0;
    }
  }

  uint32_t HexCode(size_t digits) {
    const std::string_view hex = text_.substr(std::min(at_, text_.size()), digits);
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool is_whole = error == std::errc() && end == hex.data() + digits;
    if (!is_whole)
      Fail(fmt::format("expected {} hexadecimal digits", digits));
    else if (code > kLastCodePoint)
      Fail(fmt::format("found {}, expected a code point up to {:X}", hex, kLastCodePoint));
    at_ += is_whole ? digits : 0;
    return code;
  }

  Grammar::Term Repeated(Grammar::Term item) {
    if (Take('*'))
      return grammar_.Repeat(item, 0, Grammar::kNoLimit);
    if (Take('?'))
      return grammar_.Optional(item);
    if (Take('+')) {
      // Not a counter, which could not count an item that may be empty.
      const Grammar::Term shared = grammar_.Share(item);
      return grammar_.Sequence({shared, grammar_.Repeat(shared, 0, Grammar::kNoLimit)});
    }
    return Counted(item);
  }

  Grammar::Term Counted(Grammar::Term item) {
    const size_t start = at_++;
    SkipSpace(Lines::kMany);
    const int64_t min = Count();
    int64_t max = min;
    SkipSpace(Lines::kMany);
    if (Take(',')) {
      SkipSpace(Lines::kMany);
      max = Peek() == '}' ? Grammar::kNoLimit : Count();
      SkipSpace(Lines::kMany);
    }
    if (!Take('}'))
      FailExpecting("',' or '}'");
    if (max != Grammar::kNoLimit && max < min)
      FailAt(start, "the bounds of a repetition are in the wrong order");
    return status_.ok() ? grammar_.Repeat(item, min, max) : item;
  }

  int64_t Count() {
    int64_t count = 0;
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
    const bool is_number = !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
    if (!is_number)
      FailExpecting("a number");
    else if (error != std::errc() || count > kMaxCount)
      Fail(fmt::format("a repetition has a bound of more than {}", kMaxCount));
    else
      at_ += static_cast<size_t>(end - rest.data());
    return count;
  }

  Grammar& grammar_;
  std::string_view text_;
  size_t at_ = 0;
  Status status_;
  std::map<std::string, Rule> rules_;
};

}  // namespace

Result<Grammar::Term> CompileGbnf(Grammar& grammar, std::string_view text) {
  return GbnfParser(grammar, text).Parse();
}

}  // namespace tenon

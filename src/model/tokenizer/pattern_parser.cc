// Pattern::Regex (pattern.h): from the expression's text to a program.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "model/tokenizer/pattern.h"
#include "model/tokenizer/unicode_steps.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

using Kind = Pattern::Instruction::Kind;
using namespace char_class;

// Published patterns compile to some hundred instructions; the bounds keep hostile ones small.
constexpr size_t kMostInstructions = 20000;
constexpr int64_t kMostRepeats = 1000;
constexpr int kDeepestNesting = 50;
constexpr char32_t kLastCode = 0x10FFFF;

constexpr uint32_t Bit(int category) {
  return uint32_t{1} << category;
}

struct NamedCategory {
  std::string_view name;
  uint16_t classes;
  uint32_t utf8proc;
};
constexpr NamedCategory kCategories[] = {
    {"L", kLetter, 0},
    {"Lu", kUpper, 0},
    {"Ll", kLower, 0},
    {"Lt", kTitle, 0},
    {"Lm", kModifier, 0},
    {"Lo", kOtherLetter, 0},
    {"M", kMark, 0},
    {"Mn", 0, Bit(UTF8PROC_CATEGORY_MN)},
    {"Mc", 0, Bit(UTF8PROC_CATEGORY_MC)},
    {"Me", 0, Bit(UTF8PROC_CATEGORY_ME)},
    {"N", kNumber, 0},
    {"Nd", 0, Bit(UTF8PROC_CATEGORY_ND)},
    {"Nl", 0, Bit(UTF8PROC_CATEGORY_NL)},
    {"No", 0, Bit(UTF8PROC_CATEGORY_NO)},
    {"P", kPunctuation, 0},
    {"S", kSymbol, 0},
    {"Sc", 0, Bit(UTF8PROC_CATEGORY_SC)},
    {"Sm", 0, Bit(UTF8PROC_CATEGORY_SM)},
    {"Sk", 0, Bit(UTF8PROC_CATEGORY_SK)},
    {"So", 0, Bit(UTF8PROC_CATEGORY_SO)},
    {"Z", 0, Bit(UTF8PROC_CATEGORY_ZS) | Bit(UTF8PROC_CATEGORY_ZL) | Bit(UTF8PROC_CATEGORY_ZP)},
    {"Zs", 0, Bit(UTF8PROC_CATEGORY_ZS)},
};

// The characters that differ from `code` in case only, by simple mappings.
void AddCases(char32_t code, PatternSet& set) {
  set.ranges.push_back({code, code});
  const auto value = static_cast<utf8proc_int32_t>(code);
  for (const utf8proc_int32_t other : {utf8proc_tolower(value), utf8proc_toupper(value)}) {
    if (other != value)
      set.ranges.push_back({static_cast<char32_t>(other), static_cast<char32_t>(other)});
  }
  // LONG S and KELVIN SIGN fold to ASCII.
  if (code == 's' || code == 'S')
    set.ranges.push_back({0x17F, 0x17F});
  if (code == 'k' || code == 'K')
    set.ranges.push_back({0x212A, 0x212A});
}

}  // namespace

// A recursive descent parser that writes the program as it reads. Errors stick.
class PatternParser {
 public:
  PatternParser(std::string_view source, Pattern::Words words)
      : source_(source),
        word_flag_(words == Pattern::Words::kOniguruma ? unicode_step::kRegexWord
                                                       : unicode_step::kTextWord) {}

  Result<Pattern> Parse() {
    Alternatives(0);
    if (status_.ok() && at_ < source_.size())
      Refuse("a closing ')' without '('");
    Emit(Kind::kMatch);
    if (!status_.ok())
      return std::move(status_).error();
    return std::move(pattern_);
  }

 private:
  using Program = std::vector<Pattern::Instruction>;

  bool More() const { return status_.ok() && at_ < source_.size(); }
  bool Next(std::string_view text) {
    if (!status_.ok() || !source_.substr(at_).starts_with(text))
      return false;
    at_ += text.size();
    return true;
  }
  void Refuse(std::string_view what) {
    if (status_.ok())
      status_ =
          Unsupported(fmt::format("the regular expression '{}' has {} at byte {}, which can't "
                                  "be read",
                                  source_, what, at_));
  }
  uint32_t Here() const { return static_cast<uint32_t>(pattern_.program_.size()); }
  uint32_t Emit(Kind kind, uint32_t x = 0, uint32_t y = 0) {
    if (pattern_.program_.size() >= kMostInstructions)
      Refuse("too many parts");
    else
      pattern_.program_.push_back({kind, x, y});
    return Here() - 1;
  }
  void EmitSet(PatternSet set) {
    pattern_.sets_.push_back(std::move(set));
    Emit(Kind::kSet, static_cast<uint32_t>(pattern_.sets_.size() - 1));
  }
  char32_t TakeChar() {
    const Utf8Char c = DecodeUtf8(source_, at_);
    at_ += c.length;
    return c.code;
  }

  void Alternatives(int depth);
  void Sequence(int depth);
  void Atom(int depth);
  void Group(int depth);
  void Look(Kind kind, int depth);
  void Escape();
  void Repeat(uint32_t begin);
  void Repeated(Program atom, int64_t least, int64_t most);
  bool Counts(int64_t& least, int64_t& most);
  std::optional<int64_t> Number();
  PatternSet Set(int depth);
  void SetItem(PatternSet& set, int depth);
  char32_t SetChar();
  bool ClassEscape(PatternSet& set);
  void Property(PatternSet& set, bool negated);
  void AddChar(char32_t code, PatternSet& set) const {
    if (fold_)
      AddCases(code, set);
    else
      set.ranges.push_back({code, code});
  }

  std::string_view source_;
  uint8_t word_flag_;  // of \w
  size_t at_ = 0;
  bool fold_ = false;  // inside (?i: )
  int looking_ = 0;    // depth of lookaheads
  Status status_;
  Pattern pattern_;
};

// Code is moved when something must stand before it; jumps inside it move along.
static void Shift(std::vector<Pattern::Instruction>& code, uint32_t from, uint32_t by) {
  for (Pattern::Instruction& instruction : code) {
    if (instruction.kind == Kind::kSet)
      continue;
    if (instruction.x >= from)
      instruction.x += by;
    if (instruction.y >= from)
      instruction.y += by;
  }
}

void PatternParser::Alternatives(int depth) {
  if (depth > kDeepestNesting)
    return Refuse("groups nested too deep");
  std::vector<uint32_t> ends;
  uint32_t begin = Here();
  Sequence(depth);
  while (Next("|")) {
    // split first, second; first; jump end; second
    Program first(pattern_.program_.begin() + begin, pattern_.program_.end());
    pattern_.program_.resize(begin);
    Shift(first, begin, 1);
    const uint32_t split = Emit(Kind::kSplit, begin + 1);
    for (const Pattern::Instruction& instruction : first)
      Emit(instruction.kind, instruction.x, instruction.y);
    ends.push_back(Emit(Kind::kJump));
    if (!status_.ok())
      return;
    pattern_.program_[split].y = Here();
    begin = Here();
    Sequence(depth);
  }
  for (const uint32_t end : ends)
    pattern_.program_[end].x = Here();
}

void PatternParser::Sequence(int depth) {
  while (More() && source_[at_] != '|' && source_[at_] != ')') {
    const uint32_t begin = Here();
    Atom(depth);
    Repeat(begin);
  }
}

void PatternParser::Atom(int depth) {
  if (Next("("))
    return Group(depth);
  if (Next("["))
    return EmitSet(Set(depth));
  if (Next("\\"))
    return Escape();
  if (Next("^")) {
    Emit(Kind::kLineBegin);
  } else if (Next("$")) {
    Emit(Kind::kLineEnd);
  } else if (Next(".")) {
    EmitSet({.negated = true,
             .ranges = {{'\n', '\n'}},
             .categories = {},
             .subsets = {},
             .intersections = {}});
  } else if (source_.find_first_of("*+?{", at_) == at_) {
    Refuse("a repetition of nothing");
  } else {
    PatternSet set;
    AddChar(TakeChar(), set);
    EmitSet(std::move(set));
  }
}

void PatternParser::Group(int depth) {
  if (Next("?="))
    return Look(Kind::kLook, depth);
  if (Next("?!"))
    return Look(Kind::kLookNot, depth);
  const bool outer = fold_;
  if (Next("?i:"))
    fold_ = true;
  else if (Next("?-i:"))
    fold_ = false;
  else if (!Next("?:") && at_ < source_.size() && source_[at_] == '?')
    return Refuse(fmt::format("the group '({}'", source_.substr(at_, 3)));
  Alternatives(depth + 1);
  fold_ = outer;
  if (status_.ok() && !Next(")"))
    Refuse("a group without its ')'");
}

// look y; [x: the looked-for program; match]; y:
void PatternParser::Look(Kind kind, int depth) {
  const uint32_t look = Emit(kind);
  ++looking_;
  Alternatives(depth + 1);
  --looking_;
  Emit(Kind::kMatch);
  if (!status_.ok())
    return;
  pattern_.program_[look].x = look + 1;
  pattern_.program_[look].y = Here();
  if (!Next(")"))
    Refuse("a group without its ')'");
}

void PatternParser::Escape() {
  PatternSet set;
  if (Next("A")) {
    Emit(Kind::kBegin);
  } else if (Next("z")) {
    Emit(Kind::kEnd);
  } else if (ClassEscape(set)) {
    EmitSet(std::move(set));
  } else {
    AddChar(SetChar(), set);
    EmitSet(std::move(set));
  }
}

// The character of an escape whose backslash was read.
char32_t PatternParser::SetChar() {
  if (!More()) {
    Refuse("a lone backslash");
    return 0;
  }
  const char32_t code = TakeChar();
  constexpr std::string_view kFrom = "nrtfv";
  constexpr std::string_view kTo = "\n\r\t\f\v";
  if (code < 0x80 && kFrom.find(static_cast<char>(code)) != std::string_view::npos)
    return static_cast<char32_t>(kTo[kFrom.find(static_cast<char>(code))]);
  if (code == 'x' || code == 'u') {
    const bool braces = code == 'x' && Next("{");
    const size_t length = braces ? std::min(source_.find('}', at_), source_.size()) - at_
                                 : (code == 'x' ? size_t{2} : size_t{4});
    uint32_t value = 0;
    const std::string digits(source_.substr(at_, length));
    if (length == 0 || length > 6 || digits.size() != length ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      Refuse("a wrong code point");
    else
      value = static_cast<uint32_t>(std::stoul(digits, nullptr, 16));
    at_ += std::min(length, source_.size() - at_);
    if (braces && !Next("}"))
      Refuse("a wrong code point");
    return value;
  }
  const bool letter =
      (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9');
  if (letter)
    Refuse(fmt::format("the escape '\\{}'", static_cast<char>(code)));
  return code;
}

// \s \d \w \p{...} and their negations; false for other escapes, with nothing read.
bool PatternParser::ClassEscape(PatternSet& set) {
  if (!More())
    return false;
  const std::pair<char, PatternSet::Category> simple[] = {
      {'s', {.classes = kSpace}},
      {'d', {.utf8proc = Bit(UTF8PROC_CATEGORY_ND)}},
      {'w', {.steps = word_flag_}}};
  const char letter = source_[at_];
  for (auto [name, category] : simple) {
    if ((letter | 0x20) != name)
      continue;
    ++at_;
    category.negated = letter != name;
    set.categories.push_back(category);
    return true;
  }
  if (letter != 'p' && letter != 'P')
    return false;
  ++at_;
  Property(set, letter == 'P');
  return true;
}

void PatternParser::Property(PatternSet& set, bool negated) {
  if (!Next("{"))
    return Refuse("\\p without '{'");
  if (Next("^"))
    negated = !negated;
  const size_t end = source_.find('}', at_);
  if (end == std::string_view::npos)
    return Refuse("\\p{ without '}'");
  const std::string_view name = source_.substr(at_, end - at_);
  PatternSet::Category category{.script_han = name == "Han" || name == "Script=Han",
                                .negated = negated};
  for (const NamedCategory& known : kCategories) {
    if (known.name == name) {
      category.classes = known.classes;
      category.utf8proc = known.utf8proc;
    }
  }
  if (category.classes == 0 && category.utf8proc == 0 && !category.script_han)
    return Refuse(fmt::format("the property '{}'", name));
  at_ = end + 1;
  set.categories.push_back(category);
}

// A set whose '[' was read.
PatternSet PatternParser::Set(int depth) {
  PatternSet set;
  if (depth > kDeepestNesting)
    Refuse("sets nested too deep");
  set.negated = Next("^");
  bool first = true;
  while (More() && (first || source_[at_] != ']')) {
    if (Next("&&")) {
      // What follows, up to the end of the set, is the other operand.
      PatternSet other;
      while (More() && source_[at_] != ']' && !source_.substr(at_).starts_with("&&"))
        SetItem(other, depth);
      set.intersections.push_back(std::move(other));
      continue;
    }
    SetItem(set, depth);
    first = false;
  }
  if (!Next("]"))
    Refuse("a set without its ']'");
  return set;
}

void PatternParser::SetItem(PatternSet& set, int depth) {
  if (source_.substr(at_).starts_with("[:"))
    return Refuse("a POSIX class");
  if (Next("[")) {
    set.subsets.push_back(Set(depth + 1));
    return;
  }
  char32_t low = 0;
  if (Next("\\")) {
    if (ClassEscape(set))
      return;
    low = SetChar();
  } else {
    low = TakeChar();
  }
  const bool range = source_.substr(at_).starts_with("-") && at_ + 1 < source_.size() &&
                     source_[at_ + 1] != ']' && source_[at_ + 1] != '[';
  if (!range)
    return AddChar(low, set);
  ++at_;
  PatternSet ignored;
  if (Next("\\") && ClassEscape(ignored))
    return Refuse("a range that ends in a class");
  // The backslash, if any, was read.
  const char32_t high = source_[at_ - 1] == '\\' ? SetChar() : TakeChar();
  if (high < low || high > kLastCode)
    return Refuse("a range that ends before it starts");
  if (fold_ && high - low < 0x100) {
    for (char32_t code = low; code <= high; ++code)
      AddCases(code, set);
    return;
  }
  set.ranges.push_back({low, high});
}

std::optional<int64_t> PatternParser::Number() {
  int64_t value = 0;
  const size_t begin = at_;
  while (at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '9' && value < 1'000'000)
    value = value * 10 + (source_[at_++] - '0');
  return at_ > begin ? std::optional(value) : std::nullopt;
}

// A repetition at the current place: most = -1 is "any number". False when there is none.
bool PatternParser::Counts(int64_t& least, int64_t& most) {
  if (Next("*"))
    least = 0, most = -1;
  else if (Next("+"))
    least = 1, most = -1;
  else if (Next("?"))
    least = 0, most = 1;
  else if (Next("{")) {
    const std::optional<int64_t> low = Number();
    most = low.value_or(0);
    if (Next(","))
      most = Number().value_or(-1);
    least = low.value_or(0);
    if (!Next("}") || (!low.has_value() && most < 0))
      Refuse("a wrong repetition");
  } else {
    return false;
  }
  return true;
}

// Repeats what was written from `begin` on, if a repetition follows.
void PatternParser::Repeat(uint32_t begin) {
  int64_t least = 0;
  int64_t most = 0;
  if (!More() || !Counts(least, most))
    return;
  if (most < 0 && looking_ > 0)
    return Refuse("an unbounded repetition in a lookahead");
  if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
    return Refuse("a repetition out of range");
  if (Next("?") || Next("+"))
    return Refuse("a lazy or possessive repetition");
  Program atom(pattern_.program_.begin() + begin, pattern_.program_.end());
  pattern_.program_.resize(begin);
  // Positions in `atom` count from its own start.
  for (Pattern::Instruction& instruction : atom) {
    if (instruction.kind == Kind::kSet || instruction.kind == Kind::kMatch)
      continue;
    instruction.x -= std::min(instruction.x, begin);
    instruction.y -= std::min(instruction.y, begin);
  }
  Repeated(std::move(atom), least, most);
}

void PatternParser::Repeated(Program atom, int64_t least, int64_t most) {
  const auto copy = [&] {
    const uint32_t base = Here();
    for (const Pattern::Instruction& instruction : atom) {
      const bool moves = instruction.kind != Kind::kSet && instruction.kind != Kind::kMatch;
      Emit(instruction.kind, instruction.x + (moves ? base : 0),
           instruction.y + (moves ? base : 0));
    }
  };
  for (int64_t i = 0; i < least && status_.ok(); ++i)
    copy();
  if (most < 0) {
    // split on, end; atom; jump split
    const uint32_t split = Emit(Kind::kSplit);
    copy();
    Emit(Kind::kJump, split);
    if (status_.ok())
      pattern_.program_[split] = {Kind::kSplit, split + 1, Here()};
    return;
  }
  std::vector<uint32_t> splits;
  for (int64_t i = least; i < most && status_.ok(); ++i) {
    splits.push_back(Emit(Kind::kSplit));
    copy();
  }
  for (const uint32_t split : splits) {
    if (status_.ok())
      pattern_.program_[split] = {Kind::kSplit, split + 1, Here()};
  }
}

Result<Pattern> Pattern::Regex(std::string_view source, Words words) {
  if (auto known = FindSplitPattern(source)) {
    Pattern pattern;
    pattern.known_ = std::move(known);
    return pattern;
  }
  return PatternParser(source, words).Parse();
}

}  // namespace tenon

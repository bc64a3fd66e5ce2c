// str methods that look at or change a whole text.
#include <fmt/format.h>

#include <algorithm>

#include "model/chat/argument_types.h"
#include "model/chat/format_text.h"
#include "model/chat/iteration.h"
#include "model/chat/methods.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_search.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// A method that maps a text to a new one.
template <std::string (*kMap)(std::string_view)>
Value Mapped(Runtime& rt, const Value& self, const BoundArguments&) {
  rt.budget().Convert(self.string->bytes);
  std::string text = kMap(self.text());
  rt.budget().Bytes(text.size());
  return rt.Adopt(std::move(text));
}

// Whether the text has a character and all of them pass.
template <bool (*kTest)(char32_t)>
Value AllPass(Runtime& rt, const Value& self, const BoundArguments&) {
  rt.budget().Decode(self.string->bytes);
  const std::string_view text = self.text();
  bool pass = !text.empty();
  for (size_t pos = 0; pass && pos < text.size();)
    pass = kTest(DecodeAt(text, pos));
  return Value::Bool(pass);
}

// Whether the text has a cased character and none of the wrong case.
template <bool (*kWrong)(char32_t)>
Value AllCased(Runtime& rt, const Value& self, const BoundArguments&) {
  rt.budget().Decode(self.string->bytes);
  const std::string_view text = self.text();
  bool cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    if (kWrong(c) || IsTitle(c))
      return Value::Bool(false);
    cased = cased || IsCased(c);
  }
  return Value::Bool(cased);
}

bool IsAscii(char32_t c) {
  return c < 0x80;
}

Value IsAsciiText(Runtime& rt, const Value& self, const BoundArguments& args) {
  return self.string->bytes == 0 ? Value::Bool(true) : AllPass<IsAscii>(rt, self, args);
}

Value IsPrintableText(Runtime& rt, const Value& self, const BoundArguments& args) {
  return self.string->bytes == 0 ? Value::Bool(true) : AllPass<IsPrintable>(rt, self, args);
}

Value IsIdentifierText(Runtime& rt, const Value& self, const BoundArguments&) {
  rt.budget().Decode(self.string->bytes);
  return Value::Bool(IsIdentifier(self.text()));
}

// Upper case only starts words, lower case only continues them.
Value IsTitleText(Runtime& rt, const Value& self, const BoundArguments&) {
  rt.budget().Decode(self.string->bytes);
  const std::string_view text = self.text();
  bool in_word = false;
  bool cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    const bool starts = IsUpper(c) || IsTitle(c);
    if ((starts && in_word) || (IsLower(c) && !in_word))
      return Value::Bool(false);
    in_word = IsCased(c);
    cased = cased || in_word;
  }
  return Value::Bool(cased);
}

// The ends of a text that are stripped or filled.
enum class Ends : uint8_t { kLeft, kRight, kBoth };

// strip, lstrip and rstrip: only a view of the text.
template <Ends kEnds>
Value Strip(Runtime& rt, const Value& self, const BoundArguments& args) {
  const bool by_chars = args.HasSome(0);
  const std::string_view chars = by_chars ? TextArgument(args, 0) : std::string_view();
  std::string_view text = self.text();
  rt.budget().Step(static_cast<int64_t>(chars.size()));
  if (kEnds != Ends::kRight)
    text = by_chars ? StripLeft(text, chars) : StripLeft(text);
  if (kEnds != Ends::kLeft)
    text = by_chars ? StripRight(text, chars) : StripRight(text);
  // Every stripped character was compared with every one of `chars`.
  const size_t stripped = self.string->bytes - text.size();
  rt.budget().Decode(stripped);
  rt.budget().Step(static_cast<int64_t>(stripped / 16 * (chars.size() / 16)));
  return rt.View(text);
}

// splitlines: at every line boundary Unicode knows.
Value SplitIntoLines(Runtime& rt, const Value& self, const BoundArguments& args) {
  rt.budget().Decode(self.string->bytes);
  const bool keep = FlagArgument(args, 0);
  std::vector<Value> lines;
  for (const std::string_view line : SplitLines(self.text())) {
    rt.budget().Step();
    lines.push_back(rt.View(keep ? line : WithoutBreak(line)));
  }
  return rt.List(lines);
}

// join takes strings only; the filter of that name takes anything.
Value Join(Runtime& rt, const Value& self, const BoundArguments& args) {
  if (!IsIterable(args[0]))
    Fail("can only join an iterable");
  Iteration items(rt, args[0]);
  TextBuilder out(rt);
  Value item;
  for (int64_t i = 0; items.Next(rt, item); ++i) {
    if (!IsString(item))
      Fail(fmt::format("sequence item {}: expected str instance, {} found", i, TypeName(item)));
    if (i > 0)
      out.Append(self.text());
    out.Append(item.text());
  }
  return out.Finish();
}

Value Format(Runtime& rt, const Value& self, const BoundArguments& args) {
  return FormatBraces(rt, self.text(), args.raw());
}

// format_map(d) is format(**d).
Value FormatMap(Runtime& rt, const Value& self, const BoundArguments& args) {
  if (!args[0].Is(Kind::kDict))
    Fail(fmt::format("format_map() expects a mapping, not {}", TypeName(args[0])));
  Arguments arguments;
  for (size_t i = 0; i < args[0].dict->size; ++i) {
    const DictEntry& entry = args[0].dict->entries[i];
    if (IsString(entry.key))
      arguments.keywords.emplace_back(entry.key.text(), entry.value);
  }
  return FormatBraces(rt, self.text(), arguments);
}

// The one-character fill of ljust, rjust and center.
std::string_view FillArgument(Runtime& rt, const BoundArguments& args) {
  if (!args.Has(1))
    return " ";
  TextArgument(args, 1);
  if (CharacterCount(rt, args[1]) != 1)
    Fail("The fill character must be exactly one character long");
  return args[1].text();
}

// center, ljust and rjust.
template <Ends kFilled>
Value Justify(Runtime& rt, const Value& self, const BoundArguments& args) {
  const int64_t width = ToIndex(args[0]);
  const std::string_view fill = FillArgument(rt, args);
  const int64_t missing = std::max<int64_t>(0, width - CharacterCount(rt, self));
  int64_t left = kFilled == Ends::kLeft ? missing : 0;
  if (kFilled == Ends::kBoth)
    left = missing / 2 + (missing & width & 1);  // CPython's choice of the longer side
  TextBuilder out(rt);
  out.Repeat(left, fill).Append(self.text()).Repeat(missing - left, fill);
  return out.Finish();
}

// Zeros go behind the sign.
Value ZeroFill(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view text = self.text();
  const bool sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  TextBuilder out(rt);
  out.Append(text.substr(0, sign ? 1 : 0));
  out.Repeat(std::max<int64_t>(0, ToIndex(args[0]) - CharacterCount(rt, self)), "0");
  return out.Append(text.substr(sign ? 1 : 0)).Finish();
}

// Tab stops every `tabsize` characters of a line.
Value ExpandTabs(Runtime& rt, const Value& self, const BoundArguments& args) {
  const int64_t width = IntegerArgument(args, 0, 8);
  const std::string_view text = self.text();
  rt.budget().Convert(text.size());
  TextBuilder out(rt);
  int64_t column = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeAt(text, pos);
    if (c == '\t') {
      const int64_t spaces = width > 0 ? width - column % width : 0;
      out.Repeat(spaces, " ");
      column += spaces;
      continue;
    }
    out.Append(text.substr(start, pos - start));
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return out.Finish();
}

// They deal in bytes and tables of code points, which no template needs.
Value Refuse(Runtime&, const Value&, const BoundArguments&) {
  Fail("str.encode, str.translate and str.maketrans are not supported");
}

constexpr Builtin kMethods[] = {
    {"capitalize", "/", 0, Mapped<Capitalize>},
    {"casefold", "/", 0, Mapped<CaseFold>},
    {"center", "/ width fillchar", 1, Justify<Ends::kBoth>},
    {"encode", "*", 0, Refuse},
    {"expandtabs", "tabsize", 0, ExpandTabs},
    {"format", "*", 0, Format},
    {"format_map", "/ mapping", 1, FormatMap},
    {"isalnum", "/", 0, AllPass<IsAlnum>},
    {"isalpha", "/", 0, AllPass<IsAlpha>},
    {"isascii", "/", 0, IsAsciiText},
    {"isdecimal", "/", 0, AllPass<IsDecimal>},
    {"isdigit", "/", 0, AllPass<IsDigit>},
    {"isidentifier", "/", 0, IsIdentifierText},
    {"islower", "/", 0, AllCased<IsUpper>},
    {"isnumeric", "/", 0, AllPass<IsNumeric>},
    {"isprintable", "/", 0, IsPrintableText},
    {"isspace", "/", 0, AllPass<IsSpace>},
    {"istitle", "/", 0, IsTitleText},
    {"isupper", "/", 0, AllCased<IsLower>},
    {"join", "/ iterable", 1, Join},
    {"ljust", "/ width fillchar", 1, Justify<Ends::kRight>},
    {"lower", "/", 0, Mapped<ToLower>},
    {"lstrip", "/ chars", 0, Strip<Ends::kLeft>},
    {"maketrans", "*", 0, Refuse},
    {"rjust", "/ width fillchar", 1, Justify<Ends::kLeft>},
    {"rstrip", "/ chars", 0, Strip<Ends::kRight>},
    {"splitlines", "keepends", 0, SplitIntoLines},
    {"strip", "/ chars", 0, Strip<Ends::kBoth>},
    {"swapcase", "/", 0, Mapped<SwapCase>},
    {"title", "/", 0, Mapped<ToTitle>},
    {"translate", "*", 0, Refuse},
    {"upper", "/", 0, Mapped<ToUpper>},
    {"zfill", "/ width", 1, ZeroFill},
};

}  // namespace

std::span<const Builtin> StringMethods() {
  return kMethods;
}

}  // namespace tenon::chat

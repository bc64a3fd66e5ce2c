// Filters on texts.
#include <fmt/format.h>

#include <algorithm>

#include "model/chat/argument_types.h"
#include "model/chat/attributes.h"
#include "model/chat/filters.h"
#include "model/chat/format_text.h"
#include "model/chat/iteration.h"
#include "model/chat/json_values.h"
#include "model/chat/methods.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_of.h"
#include "model/chat/text_search.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// The str method of the same name on str(value).
Value CallMethod(Runtime& rt, std::string_view name, const Value& self, const Arguments& args) {
  const Value text = TextOf(rt, self);
  return CallBuiltin(rt, *FindMethod(text, name), text, args);
}

Value Upper(Runtime& rt, const Value& self, const BoundArguments&) {
  return CallMethod(rt, "upper", self, {});
}

Value Lower(Runtime& rt, const Value& self, const BoundArguments&) {
  return CallMethod(rt, "lower", self, {});
}

Value CapitalizeFirst(Runtime& rt, const Value& self, const BoundArguments&) {
  return CallMethod(rt, "capitalize", self, {});
}

// str.strip of the value as text.
Value Trim(Runtime& rt, const Value& self, const BoundArguments& args) {
  return CallMethod(rt, "strip", self, {{args.Or(0, Value::None())}, {}});
}

// In 80 columns unless a width is given.
Value Center(Runtime& rt, const Value& self, const BoundArguments& args) {
  return CallMethod(rt, "center", self, {{args.Or(0, Value::Int(80))}, {}});
}

Value String(Runtime& rt, const Value& self, const BoundArguments&) {
  return TextOf(rt, self);
}

// Not str.title: a word starts after white space or one of -({[< only.
Value Title(Runtime& rt, const Value& self, const BoundArguments&) {
  const Value value = TextOf(rt, self);
  const std::string_view text = value.text();
  rt.budget().Convert(text.size());
  std::string out;
  bool starts = true;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    AppendCased(c, starts ? Case::kUpper : Case::kLower, out);
    starts = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  }
  rt.budget().Bytes(out.size());
  return rt.Adopt(std::move(out));
}

// All three are taken as text.
Value Replace(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value part = TextOf(rt, args[0]);
  const Value replacement = TextOf(rt, args[1]);
  const int64_t limit = args.HasSome(2) ? ToIndex(args[2]) : -1;
  return ReplaceParts(rt, TextOf(rt, self), part.text(), replacement.text(), limit);
}

// The elements, or an attribute of each, as text.
Value Join(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::vector<Value> path =
      args.HasSome(1) ? AttributePath(rt, args[1]) : std::vector<Value>{};
  const Value separator = args.Has(0) ? TextOf(rt, args[0]) : rt.View({});
  Iteration items(rt, self);
  TextBuilder out(rt);
  Value item;
  for (bool first = true; items.Next(rt, item); first = false) {
    if (!first)
      out.Append(separator.text());
    WriteText(rt, out, FollowPath(rt, item, path));
  }
  return out.Finish();
}

// The % operator with the arguments of the call.
Value FormatValues(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Arguments& raw = args.raw();
  if (!raw.positional.empty() && !raw.keywords.empty())
    Fail("can't handle positional and keyword arguments at the same time");
  if (raw.keywords.empty())
    return FormatPercent(rt, TextOf(rt, self), rt.Tuple(raw.positional));
  Dict* named = rt.NewDict();
  for (const auto& [name, value] : raw.keywords)
    named->Set(rt, rt.View(name), value);
  return FormatPercent(rt, TextOf(rt, self), rt.Wrap(named));
}

// All lines but the first, and no blank ones, unless asked for.
Value Indent(Runtime& rt, const Value& self, const BoundArguments& args) {
  if (IsUndefined(self))
    FailUndefined(rt, self);
  if (!IsString(self))
    Fail(fmt::format("unsupported operand type(s) for +=: '{}' and 'str'", TypeName(self)));
  TextBuilder spaces(rt);
  if (args.Has(0) && IsString(args[0]))
    spaces.Append(args[0].text());
  else
    spaces.Repeat(IntegerArgument(args, 0, 4), " ");
  const bool blank = FlagArgument(args, 2);
  const std::string text = std::string(self.text()) + "\n";
  TextBuilder out(rt);
  if (FlagArgument(args, 1))
    out.Append(spaces.text());
  bool first = true;
  for (const std::string_view line : SplitLines(text)) {
    rt.budget().Step();
    const std::string_view content = WithoutBreak(line);
    if (!first)
      out.Append('\n');
    if (!first && (blank || !content.empty()))
      out.Append(spaces.text());
    out.Append(content);
    first = false;
  }
  return out.Finish();
}

// At a word boundary unless `killwords`; a text that is too long by `leeway` at most stays whole.
Value Truncate(Runtime& rt, const Value& self, const BoundArguments& args) {
  const int64_t length = IntegerArgument(args, 0, 255);
  const Value end = args.Or(2, rt.View("..."));
  const int64_t leeway = args.HasSome(3) ? ToIndex(args[3]) : 5;
  const int64_t whole = LengthOf(rt, self);
  if (!IsString(end))
    Fail(fmt::format("can only concatenate str (not \"{}\") to str", TypeName(end)));
  const int64_t end_length = CharacterCount(rt, end);
  if (length < end_length)
    Fail(fmt::format("expected length >= {}, got {}", end_length, length));
  if (leeway < 0)
    Fail(fmt::format("expected leeway >= 0, got {}", leeway));
  if (whole < 0)
    Fail(fmt::format("object of type '{}' has no len()", TypeName(self)));
  if (whole - leeway <= length)
    return self;
  if (!IsString(self))
    Fail(fmt::format("truncate expects a str, not {}", TypeName(self)));
  const Value head = SubText(rt, self, Value::Int(0), Value::Int(length - end_length));
  std::string_view kept = head.text();
  rt.budget().Decode(kept.size());
  if (!FlagArgument(args, 1))
    kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  TextBuilder out(rt);
  return out.Append(kept).Append(end.text()).Finish();
}

// Runs of letters, digits and underscores.
Value WordCount(Runtime& rt, const Value& self, const BoundArguments&) {
  const Value value = TextOf(rt, self);
  const std::string_view text = value.text();
  rt.budget().Decode(text.size());
  int64_t words = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    const bool word = c == '_' || IsAlnum(c);
    words += word && !in_word ? 1 : 0;
    in_word = word;
  }
  return Value::Int(words);
}

// Nothing is escaped on output here; the mark only matters to `+` and `escape`.
Value Safe(Runtime& rt, const Value& self, const BoundArguments&) {
  return rt.Markup(TextOf(rt, self));
}

// Also what is marked safe.
Value ForceEscape(Runtime& rt, const Value& self, const BoundArguments&) {
  TextBuilder out(rt);
  WriteEscaped(out, TextOf(rt, self).text());
  return rt.Markup(out.Finish());
}

Value Escape(Runtime& rt, const Value& self, const BoundArguments& args) {
  return IsString(self) && self.string->markup ? self : ForceEscape(rt, self, args);
}

// A path keeps its slashes; in a query spaces become plus signs.
enum class UrlUse : uint8_t { kPath, kQuery };

void WriteQuotedUrl(Runtime& rt, TextBuilder& out, const Value& value, UrlUse use) {
  constexpr std::string_view kUnreserved = "_.-~";
  const Value text = TextOf(rt, value);
  for (const char c : text.text()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kUnreserved.find(c) != std::string_view::npos ||
                       (c == '/' && use == UrlUse::kPath);
    if (plain)
      out.Append(c);
    else if (c == ' ' && use == UrlUse::kQuery)
      out.Append('+');
    else
      out.Append(fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c))));
  }
}

// A text as a path, a dict or a list of pairs as a query.
Value UrlEncode(Runtime& rt, const Value& self, const BoundArguments&) {
  TextBuilder out(rt);
  if (IsString(self) || !IsIterable(self)) {
    WriteQuotedUrl(rt, out, self, UrlUse::kPath);
    return out.Finish();
  }
  Iteration items(rt, self);
  Value item;
  for (bool first = true; items.Next(rt, item); first = false) {
    const std::vector<Value> pair = self.Is(Kind::kDict)
                                        ? std::vector<Value>{item, *self.dict->Find(rt, item)}
                                        : Collect(rt, item);
    if (pair.size() != 2)
      Fail("urlencode expects pairs of a key and a value");
    if (!first)
      out.Append('&');
    WriteQuotedUrl(rt, out, pair[0], UrlUse::kQuery);
    WriteQuotedUrl(rt, out.Append('='), pair[1], UrlUse::kQuery);
  }
  return out.Finish();
}

// tojson as transformers defines it: json.dumps without HTML escapes.
Value ToJson(Runtime& rt, const Value& self, const BoundArguments& args) {
  JsonStyle style;
  style.ascii = FlagArgument(args, 0);
  TextBuilder indent(rt);
  if (args.HasSome(1)) {
    style.indented = true;
    style.item_separator = ",";
    if (IsString(args[1]))
      indent.Append(args[1].text());
    else
      indent.Repeat(ToIndex(args[1]), " ");
    style.indent = indent.text();
  }
  if (args.HasSome(2)) {
    const std::vector<Value> pair = Collect(rt, args[2]);
    if (pair.size() != 2 || !IsString(pair[0]) || !IsString(pair[1]))
      Fail("tojson expects separators to be two strings");
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  style.sorted = FlagArgument(args, 3);
  TextBuilder out(rt);
  WriteJson(rt, out, self, style);
  return out.Finish();
}

constexpr Builtin kFilters[] = {
    {"capitalize", "", 0, CapitalizeFirst},
    {"center", "width", 0, Center},
    {"e", "", 0, Escape},
    {"escape", "", 0, Escape},
    {"forceescape", "", 0, ForceEscape},
    {"format", "*", 0, FormatValues},
    {"indent", "width first blank", 0, Indent},
    {"join", "d attribute", 0, Join},
    {"lower", "", 0, Lower},
    {"replace", "old new count", 2, Replace},
    {"safe", "", 0, Safe},
    {"string", "", 0, String},
    {"title", "", 0, Title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, ToJson},
    {"trim", "chars", 0, Trim},
    {"truncate", "length killwords end leeway", 0, Truncate},
    {"upper", "", 0, Upper},
    {"urlencode", "", 0, UrlEncode},
    {"wordcount", "", 0, WordCount},
};

}  // namespace

std::span<const Builtin> TextFilters() {
  return kFilters;
}

}  // namespace tenon::chat

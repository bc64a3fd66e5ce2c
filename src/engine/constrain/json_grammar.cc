#include "engine/constrain/json_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/constrain/number_range.h"
#include "engine/constrain/regex.h"

namespace tenon {
namespace {

// Spaces or tabs at the beginning of a line.
constexpr int64_t kMaxIndent = 40;

// What may stand in a name without being escaped.
CodeSet PlainCharacters() {
  return {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}};
}

std::u32string CodePointsOf(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i++]);
    const int tails = lead < 0x80 ? 0 : lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    char32_t code = lead < 0x80 ? lead : lead & (0x3FU >> tails);
    for (int t = 0; t < tails && i < text.size(); ++t)
      code = (code << 6) | (static_cast<uint8_t>(text[i++]) & 0x3FU);
    out.push_back(code);
  }
  return out;
}

}  // namespace

std::string JsonGrammar::Quote(std::string_view text) {
  return nlohmann::json(text).dump();
}

Grammar::Term JsonGrammar::Space() {
  if (space_ < 0) {
    const Term blank = grammar_.Bytes(ByteRange(' ', ' ') | ByteRange('\t', '\t'));
    const Term line =
        grammar_.Sequence({grammar_.Literal("\n"), grammar_.Repeat(blank, 0, kMaxIndent)});
    space_ = grammar_.Either({grammar_.Empty(), grammar_.Literal(" "), line});
  }
  return space_;
}

Grammar::Term JsonGrammar::Quoted(Term characters) {
  return grammar_.Sequence({grammar_.Literal("\""), characters, grammar_.Literal("\"")});
}

Grammar::Term JsonGrammar::String(int64_t min, int64_t max) {
  return Quoted(grammar_.StringCharacters(min, max));
}

Grammar::Term JsonGrammar::AnyValue() {
  if (any_value_ >= 0)
    return any_value_;
  const Grammar::Rule rule = grammar_.DeclareRule();
  any_value_ = grammar_.Call(rule);
  any_string_ = grammar_.Share(String(0, Grammar::kNoLimit));
  const auto number = NumberBetween(grammar_, NumberKind::kAny, {}, {});
  grammar_.DefineRule(
      rule, grammar_.Either({any_string_, number.value(), grammar_.AnyOf({"true", "false", "null"}),
                             AnyArray(), AnyObject()}));
  return any_value_;
}

Grammar::Term JsonGrammar::AnyArray() {
  if (any_array_ < 0) {
    const Grammar::Rule rule = grammar_.DeclareRule();
    any_array_ = grammar_.Call(rule);
    ArrayParts parts;
    parts.rest = AnyValue();
    grammar_.DefineRule(rule, Array(parts));
  }
  return any_array_;
}

Grammar::Term JsonGrammar::AnyObject() {
  if (any_object_ < 0) {
    const Grammar::Rule rule = grammar_.DeclareRule();
    any_object_ = grammar_.Call(rule);
    ObjectParts parts;
    parts.other_value = AnyValue();
    grammar_.DefineRule(rule, Object(parts));
  }
  return any_object_;
}

Grammar::Term JsonGrammar::Separator() {
  return grammar_.Sequence({grammar_.Literal(","), Space()});
}

Grammar::Term JsonGrammar::Array(const ArrayParts& parts) {
  const auto fixed = static_cast<int64_t>(parts.first.size());
  const bool is_limited = parts.max != Grammar::kNoLimit;
  if (is_limited && parts.max < parts.min)
    return grammar_.Never();
  // From the end: what may follow when item i - 1 is there.
  Term rest = grammar_.Empty();
  if (parts.rest >= 0 && (!is_limited || parts.max > fixed)) {
    const int64_t min = std::max<int64_t>(parts.min - fixed, 0);
    const int64_t max = is_limited ? parts.max - fixed : Grammar::kNoLimit;
    if (fixed > 0) {
      rest = grammar_.Repeat(grammar_.Sequence({Separator(), parts.rest}), min, max);
    } else {
      const Term more = grammar_.Repeat(grammar_.Sequence({Separator(), parts.rest}),
                                        std::max<int64_t>(min - 1, 0), is_limited ? max - 1 : max);
      rest = grammar_.Sequence({parts.rest, more});
      if (min == 0)
        rest = grammar_.Optional(rest);
    }
  } else if (parts.min > fixed) {
    return grammar_.Never();
  }
  for (int64_t i = fixed - 1; i >= 0; --i) {
    std::vector<Term> item;
    if (i > 0)
      item.push_back(Separator());
    item.push_back(parts.first[static_cast<size_t>(i)]);
    item.push_back(rest);
    rest = is_limited && i >= parts.max ? grammar_.Empty() : grammar_.Sequence(std::move(item));
    if (i >= parts.min)
      rest = grammar_.Optional(rest);
    // Shared, as each of these holds all that follow.
    rest = grammar_.Share(rest);
  }
  return grammar_.Sequence({grammar_.Literal("["), Space(), rest, Space(), grammar_.Literal("]")});
}

Grammar::Term JsonGrammar::NameAndValue(Term name, Term value) {
  return grammar_.Sequence({name, grammar_.Literal(":"), Space(), value});
}

// A text that is none of `names`, which agree in their first `at` characters.
Grammar::Term JsonGrammar::NotOneOf(std::vector<std::u32string> names, size_t at) {
  const Term any = grammar_.Repeat(OneCharacter(grammar_, PlainCharacters(), TextForm::kPlain), 0,
                                   Grammar::kNoLimit);
  std::vector<Term> parts;
  if (names.empty() || names.front().size() > at)
    parts.push_back(grammar_.Empty());
  std::erase_if(names, [&](const std::u32string& name) { return name.size() == at; });
  CodeSet other;
  while (!names.empty()) {
    const char32_t code = names.front()[at];
    std::vector<std::u32string> alike;
    std::erase_if(names, [&](const std::u32string& name) {
      if (name[at] == code)
        alike.push_back(name);
      return name[at] == code;
    });
    other.Add({code, code});
    if (code < 0x20 || code == '"' || code == '\\')
      continue;  // would have to be escaped
    const CodeSet one = {{code, code}};
    parts.push_back(grammar_.Sequence(
        {OneCharacter(grammar_, one, TextForm::kPlain), NotOneOf(std::move(alike), at + 1)}));
  }
  other.Add(PlainCharacters().Complement());
  parts.push_back(
      grammar_.Sequence({OneCharacter(grammar_, other.Complement(), TextForm::kPlain), any}));
  return grammar_.Either(std::move(parts));
}

// Names without escapes, so that none is written in two ways.
Grammar::Term JsonGrammar::OtherName(const std::vector<std::string>& taken) {
  if (taken.empty())
    return String(0, Grammar::kNoLimit);
  std::vector<std::u32string> names;
  for (const std::string& name : taken)
    names.push_back(CodePointsOf(name));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return grammar_.Share(Quoted(NotOneOf(std::move(names), 0)));
}

Grammar::Term JsonGrammar::Others(const ObjectParts& parts, Place place) {
  if (parts.other_value < 0 || parts.max_others == 0)
    return grammar_.Empty();
  std::vector<std::string> taken;
  for (const Member& member : parts.members)
    taken.push_back(member.name);
  const Term other = grammar_.Share(NameAndValue(OtherName(taken), parts.other_value));
  const Term next = grammar_.Sequence({Separator(), other});
  if (place == Place::kLater)
    return grammar_.Repeat(next, 0, parts.max_others);
  const int64_t more =
      parts.max_others == Grammar::kNoLimit ? parts.max_others : parts.max_others - 1;
  return grammar_.Optional(grammar_.Sequence({other, grammar_.Repeat(next, 0, more)}));
}

// From the end: what may follow member i - 1, when there were members before and when not.
Grammar::Term JsonGrammar::Object(const ObjectParts& parts) {
  Term after_none = grammar_.Share(Others(parts, Place::kFirst));
  Term after_some = grammar_.Share(Others(parts, Place::kLater));
  for (auto member = parts.members.rbegin(); member != parts.members.rend(); ++member) {
    const Term pair =
        grammar_.Share(NameAndValue(grammar_.Literal(Quote(member->name)), member->value));
    std::vector<Term> first = {grammar_.Sequence({pair, after_some})};
    std::vector<Term> later = {grammar_.Sequence({Separator(), pair, after_some})};
    if (!member->is_required) {
      first.push_back(after_none);
      later.push_back(after_some);
    }
    after_none = grammar_.Share(grammar_.Either(std::move(first)));
    after_some = grammar_.Share(grammar_.Either(std::move(later)));
  }
  return grammar_.Sequence(
      {grammar_.Literal("{"), Space(), after_none, Space(), grammar_.Literal("}")});
}

}  // namespace tenon

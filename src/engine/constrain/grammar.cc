#include "engine/constrain/grammar.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;
constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

// Last code points of one, two, three and four bytes (Unicode, table 3-6).
constexpr std::array<uint32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};

std::string Encode(uint32_t code) {
  size_t length = 1;
  while (code > kLastOfLength[length - 1])
    ++length;
  constexpr std::array<uint32_t, 5> kLead = {0, 0, 0xC0, 0xE0, 0xF0};
  std::string out(length, '\0');
  for (size_t i = length - 1; i > 0; --i) {
    out[i] = static_cast<char>(0x80U | (code & 0x3FU));
    code >>= 6;
  }
  out[0] = static_cast<char>(kLead[length] | code);
  return out;
}

ByteSet HexDigits() {
  return ByteRange('0', '9') | ByteRange('a', 'f') | ByteRange('A', 'F');
}

}  // namespace

ByteSet ByteRange(uint8_t low, uint8_t high) {
  ByteSet set;
  for (uint32_t byte = low; byte <= high; ++byte)
    set.set(byte);
  return set;
}

Grammar::Term Grammar::Add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Term>(nodes_.size() - 1);
}

Grammar::Term Grammar::Bytes(const ByteSet& set) {
  Node node;
  node.kind = Kind::kBytes;
  node.bytes = set;
  return Add(std::move(node));
}

Grammar::Term Grammar::Literal(std::string_view text) {
  std::vector<Term> parts;
  for (const char c : text)
    parts.push_back(Bytes(ByteRange(static_cast<uint8_t>(c), static_cast<uint8_t>(c))));
  return Sequence(std::move(parts));
}

Grammar::Term Grammar::Sequence(std::vector<Term> parts) {
  if (parts.size() == 1)
    return parts.front();
  Node node;
  node.kind = Kind::kSequence;
  node.parts = std::move(parts);
  return Add(std::move(node));
}

Grammar::Term Grammar::Either(std::vector<Term> parts) {
  if (parts.size() == 1)
    return parts.front();
  Node node;
  node.kind = Kind::kEither;
  node.parts = std::move(parts);
  return Add(std::move(node));
}

Grammar::Term Grammar::Repeat(Term part, int64_t min, int64_t max) {
  TENON_CHECK(min >= 0 && (max == kNoLimit || max >= min));
  Node node;
  node.kind = Kind::kRepeat;
  node.parts = {part};
  node.min = min;
  node.max = max;
  return Add(std::move(node));
}

// Splits where the tails are not whole ranges, so that each alternative is a product of ranges.
Grammar::Term Grammar::Between(std::string_view low, std::string_view high, uint8_t tail_low,
                               uint8_t tail_high) {
  const auto first = static_cast<uint8_t>(low.front());
  const auto last = static_cast<uint8_t>(high.front());
  const std::string_view low_tail = low.substr(1);
  const std::string_view high_tail = high.substr(1);
  if (low_tail.empty())
    return Bytes(ByteRange(first, last));
  const std::string lowest(low_tail.size(), static_cast<char>(tail_low));
  const std::string highest(low_tail.size(), static_cast<char>(tail_high));
  const auto then = [&](uint32_t from, uint32_t to, Term tail) {
    return Sequence({Bytes(ByteRange(static_cast<uint8_t>(from), static_cast<uint8_t>(to))), tail});
  };
  if (first == last)
    return then(first, last, Between(low_tail, high_tail, tail_low, tail_high));
  std::vector<Term> parts;
  uint32_t whole_first = first;
  uint32_t whole_last = last;
  if (low_tail != lowest) {
    parts.push_back(then(first, first, Between(low_tail, highest, tail_low, tail_high)));
    ++whole_first;
  }
  if (high_tail != highest) {
    parts.push_back(then(last, last, Between(lowest, high_tail, tail_low, tail_high)));
    --whole_last;
  }
  if (whole_first <= whole_last) {
    const Term any = Bytes(ByteRange(tail_low, tail_high));
    parts.push_back(
        then(whole_first, whole_last, Sequence(std::vector<Term>(low_tail.size(), any))));
  }
  return Either(std::move(parts));
}

Grammar::Term Grammar::AnyOf(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return AnyOfSorted(texts, 0);
}

// The texts agree in their first `at` bytes.
Grammar::Term Grammar::AnyOfSorted(std::span<const std::string> texts, size_t at) {
  if (texts.size() == 1)
    return Literal(std::string_view(texts.front()).substr(at));
  std::vector<Term> parts;
  while (!texts.empty()) {
    if (texts.front().size() == at) {
      parts.push_back(Empty());
      texts = texts.subspan(1);
      continue;
    }
    const char byte = texts.front()[at];
    size_t count = 1;
    while (count < texts.size() && texts[count][at] == byte)
      ++count;
    const Term rest = AnyOfSorted(texts.first(count), at + 1);
    parts.push_back(Sequence({Literal(std::string_view(&byte, 1)), rest}));
    texts = texts.subspan(count);
  }
  return Either(std::move(parts));
}

Grammar::Term Grammar::CodePoints(uint32_t low, uint32_t high) {
  std::vector<Term> parts;
  high = std::min(high, kLastCodePoint);
  const auto add = [&](uint32_t from, uint32_t to) {
    for (const uint32_t last : kLastOfLength) {
      if (from > to)
        return;
      if (from > last)
        continue;
      const uint32_t end = std::min(to, last);
      parts.push_back(Between(Encode(from), Encode(end), 0x80, 0xBF));
      from = end + 1;
    }
  };
  add(low, std::min(high, kFirstSurrogate - 1));
  add(std::max(low, kLastSurrogate + 1), high);
  return Either(std::move(parts));
}

// Surrogates can't be written: one alone is no character, and a pair would count as two.
Grammar::Term Grammar::StringCharacter() {
  if (string_character_ >= 0)
    return string_character_;
  const ByteSet hex = HexDigits();
  const ByteSet d = ByteRange('d', 'd') | ByteRange('D', 'D');
  const Term any = Bytes(hex);
  const Term below_d8 = Sequence({Bytes(hex & ~d), any, any, any});
  const Term d0_to_d7 = Sequence({Bytes(d), Bytes(ByteRange('0', '7')), any, any});
  ByteSet letters;
  for (const char c : std::string_view("\"\\/bfnrt"))
    letters.set(static_cast<uint8_t>(c));
  const Term escape =
      Sequence({Literal("\\"),
                Either({Bytes(letters), Sequence({Literal("u"), Either({below_d8, d0_to_d7})})})});
  ByteSet plain = ByteRange(0x20, 0x7F);
  plain.reset('"');
  plain.reset('\\');
  const Term ascii = Bytes(plain);
  nodes_[static_cast<size_t>(ascii)].is_string = true;
  string_character_ = Either({ascii, CodePoints(0x80, kLastCodePoint), escape});
  return string_character_;
}

Grammar::Term Grammar::StringCharacters(int64_t min, int64_t max) {
  const Term term = Repeat(StringCharacter(), min, max);
  nodes_[static_cast<size_t>(term)].is_string = true;
  return term;
}

// One rule for each number of the mark's bytes that were just read (Knuth, Morris and Pratt).
Grammar::Term Grammar::Until(std::string_view mark, Term then, Mark need) {
  std::vector<Rule> rules;
  for (size_t i = 0; i < mark.size(); ++i)
    rules.push_back(DeclareRule());
  for (size_t read = 0; read < mark.size(); ++read) {
    std::map<size_t, ByteSet> by_next;
    for (size_t byte = 0; byte < 256; ++byte) {
      std::string text(mark.substr(0, read));
      text.push_back(static_cast<char>(byte));
      while (!mark.starts_with(text))
        text.erase(0, 1);
      by_next[text.size()].set(byte);
    }
    std::vector<Term> parts;
    for (const auto& [next, bytes] : by_next)
      parts.push_back(Sequence({Bytes(bytes), next == mark.size() ? then : Call(rules[next])}));
    if (need == Mark::kOptional)
      parts.push_back(Empty());
    DefineRule(rules[read], Either(std::move(parts)));
  }
  return Call(rules[0]);
}

Grammar::Rule Grammar::DeclareRule() {
  rules_.push_back(-1);
  return static_cast<Rule>(rules_.size() - 1);
}

void Grammar::DefineRule(Rule rule, Term term) {
  TENON_CHECK(rules_[static_cast<size_t>(rule)] < 0);
  rules_[static_cast<size_t>(rule)] = term;
}

Grammar::Term Grammar::Call(Rule rule) {
  Node node;
  node.kind = Kind::kRule;
  node.rule = rule;
  return Add(std::move(node));
}

Grammar::Term Grammar::Share(Term term) {
  const Rule rule = DeclareRule();
  DefineRule(rule, term);
  return Call(rule);
}

}  // namespace tenon

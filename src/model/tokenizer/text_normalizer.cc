#include "model/tokenizer/text_normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/unicode_steps.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

// Calls `change(code, out)` for each character; bytes that are none are copied.
template <class Change>
std::string ForEachChar(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.state == Utf8State::kValid)
      change(c.code, out);
    else
      out.append(text, at, c.length);
    at += c.length;
  }
  return out;
}

// Capitals of Unicode 16 and 17, which utf8proc does not know yet: [first, last] and the distance
// to their small letters.
struct NewCapitals {
  char32_t first;
  char32_t last;
  int32_t distance;
};
constexpr NewCapitals kNewCapitals[] = {{0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                                        {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
                                        {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
                                        {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                                        {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B}};

void AppendLower(char32_t code, std::string& out) {
  // The one character whose lower case is two.
  if (code == 0x130) {
    out += "i\u0307";
    return;
  }
  for (const NewCapitals& capitals : kNewCapitals) {
    if (code >= capitals.first && code <= capitals.last)
      return AppendUtf8(static_cast<char32_t>(static_cast<int32_t>(code) + capitals.distance), out);
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
}

// BERT's "Chinese characters": the blocks of CJK ideographs.
bool IsBertChinese(char32_t code) {
  constexpr CodeRange kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                   {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks), [code](const CodeRange& block) {
    return code >= block.first && code <= block.last;
  });
}

// Without the characters that have the flag.
std::string Remove(uint8_t flag, std::string_view text) {
  return ForEachChar(text, [flag](char32_t code, std::string& out) {
    if ((StepFlagsOf(code) & flag) == 0)
      AppendUtf8(code, out);
  });
}

// The character that NMT's cleaning makes of `code`; 0: it goes.
char32_t CleanNmt(char32_t code) {
  const bool removed = (code >= 0x01 && code <= 0x08) || code == 0x0B ||
                       (code >= 0x0E && code <= 0x1F) || code == 0x7F || code == 0x8F ||
                       code == 0x9F;
  if (removed)
    return 0;
  const bool blank = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D ||
                     code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                     code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  return blank ? U' ' : code;
}

// Darts-clone's units: bit 8 says that a value hangs on the node, the low byte is the label, the
// upper bits the offset of the children.
uint32_t TrieOffset(uint32_t unit) {
  return (unit >> 10) << ((unit & (1U << 9)) >> 6);
}

// The replacement of the shortest prefix of `text` in the map; nullptr when there is none.
const char* FindInMap(const CharacterMap& map, std::string_view text) {
  const std::vector<uint32_t>& units = map.units;
  if (units.empty())
    return nullptr;
  size_t node = TrieOffset(units[0]);
  for (const char letter : text) {
    const auto label = static_cast<uint8_t>(letter);
    node ^= label;
    if (node >= units.size() || (units[node] & (1U << 31 | 0xFF)) != label)
      return nullptr;
    const uint32_t unit = units[node];
    node ^= TrieOffset(unit);
    if ((unit >> 8 & 1) == 0)
      continue;
    const size_t value = node < units.size() ? units[node] & ~(1U << 31) : map.texts.size();
    return value < map.texts.size() ? map.texts.c_str() + value : nullptr;
  }
  return nullptr;
}

// Where the user-perceived character at `at` ends (UAX #29).
size_t GraphemeEnd(std::string_view text, size_t at) {
  Utf8Char c = DecodeUtf8(text, at);
  utf8proc_int32_t state = 0;
  while (c.state == Utf8State::kValid && at + c.length < text.size()) {
    at += c.length;
    const Utf8Char next = DecodeUtf8(text, at);
    if (next.state != Utf8State::kValid ||
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state))
      return at;
    c = next;
  }
  return at + c.length;
}

// SentencePiece maps whole user-perceived characters of up to this many bytes.
constexpr size_t kLongestMapped = 5;

}  // namespace

std::string TextNormalizer::Normalize(std::string_view text) const {
  std::string result(text);
  for (const Normalizer& step : steps_) {
    result =
        std::visit([&](const auto& concrete) { return Apply(concrete, std::move(result)); }, step);
  }
  return result;
}

std::string TextNormalizer::Apply(const normalizer::Form& step, std::string text) const {
  return forms_.Normalize(text, step.form);
}

std::string TextNormalizer::Apply(const normalizer::Lowercase&, std::string text) const {
  return ForEachChar(text, AppendLower);
}

std::string TextNormalizer::Apply(const normalizer::StripAccents&, std::string text) const {
  return Remove(unicode_step::kAccentMark, text);
}

std::string TextNormalizer::Apply(const normalizer::Strip& step, std::string text) const {
  size_t begin = 0;
  size_t end = text.size();
  const RuleMatcher chars(classes_, text);
  while (step.left && begin < end && (chars.At(begin).classes & char_class::kSpace) != 0)
    begin += chars.At(begin).length;
  for (size_t at = begin, last = begin; step.right && at < text.size();) {
    const RuleMatcher::Char c = chars.At(at);
    at += c.length;
    if ((c.classes & char_class::kSpace) == 0)
      last = at;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string TextNormalizer::Apply(const normalizer::Prepend& step, std::string text) const {
  return text.empty() ? text : step.text + text;
}

std::string TextNormalizer::Apply(const normalizer::Replace& step, std::string text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Pattern::Match match = step.pattern.Find(classes_, text, at);
    out.append(text, at, match.begin - at);
    if (match.end > match.begin)
      out += step.content;
    at = match.end;
  }
  return out;
}

std::string TextNormalizer::Apply(const normalizer::Bert& step, std::string text) const {
  text = ForEachChar(text, [&](char32_t code, std::string& out) {
    if (step.clean_text && (StepFlagsOf(code) & unicode_step::kBertControl) != 0)
      return;
    const bool space = (classes_.Of(code) & char_class::kSpace) != 0;
    const bool chinese = step.chinese_characters && IsBertChinese(code);
    if (chinese)
      out += ' ';
    AppendUtf8(step.clean_text && space ? U' ' : code, out);
    if (chinese)
      out += ' ';
  });
  if (step.strip_accents)
    text = Remove(unicode_step::kBertMark, forms_.Normalize(text, NormalForm::kNfd));
  return step.lowercase ? ForEachChar(text, AppendLower) : text;
}

std::string TextNormalizer::Apply(const normalizer::ByteLevel&, std::string text) const {
  return SpellBytes(text);
}

std::string TextNormalizer::Apply(const normalizer::Nmt&, std::string text) const {
  return ForEachChar(text, [](char32_t code, std::string& out) {
    if (const char32_t clean = CleanNmt(code); clean != 0)
      AppendUtf8(clean, out);
  });
}

std::string TextNormalizer::Apply(const normalizer::Precompiled& step, std::string text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = GraphemeEnd(text, at);
    const std::string_view whole = std::string_view(text).substr(at, end - at);
    if (const char* mapped =
            whole.size() <= kLongestMapped ? FindInMap(step.map, whole) : nullptr) {
      out += mapped;
      at = end;
      continue;
    }
    for (; at < end;) {
      const size_t length = DecodeUtf8(text, at).length;
      const std::string_view one = std::string_view(text).substr(at, length);
      const char* mapped = FindInMap(step.map, one);
      out += mapped != nullptr ? std::string_view(mapped) : one;
      at += length;
    }
  }
  return out;
}

}  // namespace tenon

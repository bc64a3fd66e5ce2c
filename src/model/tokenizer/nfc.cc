#include "model/tokenizer/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "model/tokenizer/unicode_tables.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

// Hangul syllables compose by arithmetic (Unicode 3.12).
constexpr char32_t kHangulBase = 0xAC00;
constexpr char32_t kLeadBase = 0x1100;
constexpr char32_t kVowelBase = 0x1161;
constexpr char32_t kTailBase = 0x11A7;
constexpr char32_t kLeads = 19;
constexpr char32_t kVowels = 21;
constexpr char32_t kTails = 28;
constexpr char32_t kSyllables = kLeads * kVowels * kTails;

// A byte that is not UTF-8 travels as this code plus the byte, beyond Unicode.
constexpr char32_t kRawByte = 0x110000;

uint64_t PairKey(char32_t first, char32_t second) {
  return static_cast<uint64_t>(first) << 32 | second;
}

// Characters with a compatibility mapping that Unicode got after version 9, where the reference's
// normalizer stopped; utf8proc maps them.
constexpr std::pair<char32_t, char32_t> kMappedLater[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D},
    {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool IsMappedLater(char32_t code) {
  return std::any_of(std::begin(kMappedLater), std::end(kMappedLater), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

// No character below U+0300 composes with or reorders against another one below it, and U+0300
// starts with the byte CC.
bool IsPlainlyComposed(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<uint8_t>(byte) < 0xCC; });
}

char32_t HangulComposite(char32_t first, char32_t second) {
  const char32_t lead = first - kLeadBase;
  const char32_t vowel = second - kVowelBase;
  if (lead < kLeads && vowel < kVowels)
    return kHangulBase + (lead * kVowels + vowel) * kTails;
  const char32_t syllable = first - kHangulBase;
  const char32_t tail = second - kTailBase;
  if (syllable < kSyllables && syllable % kTails == 0 && tail > 0 && tail < kTails)
    return first + tail;
  return 0;
}

void DecomposeHangul(char32_t syllable, std::u32string& out) {
  out += kLeadBase + syllable / (kVowels * kTails);
  out += kVowelBase + syllable / kTails % kVowels;
  if (const char32_t tail = syllable % kTails; tail != 0)
    out += kTailBase + tail;
}

}  // namespace

Nfc::Nfc() {
  for (const CanonicalPair& pair : ComposingPairs()) {
    decompositions_[pair.composite] = {pair.first, pair.second};
    composites_[PairKey(pair.first, pair.second)] = pair.composite;
  }
  for (const CanonicalPair& pair : DecomposeOnly())
    decompositions_[pair.composite] = {pair.first, pair.second};
  const auto runs = CombiningRuns();
  combining_runs_.assign(runs.begin(), runs.end());
}

void Nfc::DecomposeCompatibly(char32_t code, std::u32string& out) {
  // U+FDFA, the longest, becomes 18 characters.
  std::array<utf8proc_int32_t, 32> codes{};
  int boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code), codes.data(), codes.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &boundary);
  if (count <= 0 || count > static_cast<utf8proc_ssize_t>(codes.size()) || IsMappedLater(code)) {
    out += code;
    return;
  }
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    out += static_cast<char32_t>(codes[i]);
}

void Nfc::DecomposeText(std::string_view text, NormalForm form, std::u32string& out) const {
  const bool compatibly = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.state != Utf8State::kValid) {
      for (size_t i = at; i < at + c.length; ++i)
        out += kRawByte + static_cast<uint8_t>(text[i]);
    } else if (compatibly) {
      DecomposeCompatibly(c.code, out);
    } else {
      Decompose(c.code, out);
    }
    at += c.length;
  }
}

std::string Nfc::Normalize(std::string_view text, NormalForm form) const {
  if (form == NormalForm::kNfc && IsPlainlyComposed(text))
    return std::string(text);
  std::u32string codes;
  DecomposeText(text, form, codes);
  SortMarks(codes);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc)
    Compose(codes);
  std::string out;
  out.reserve(text.size());
  for (char32_t code : codes) {
    if (code >= kRawByte)
      out += static_cast<char>(code - kRawByte);
    else
      AppendUtf8(code, out);
  }
  return out;
}

void Nfc::Decompose(char32_t code, std::u32string& out) const {
  if (code - kHangulBase < kSyllables)
    return DecomposeHangul(code - kHangulBase, out);
  auto found = code < 0xC0 ? decompositions_.end() : decompositions_.find(code);
  if (found == decompositions_.end()) {
    out += code;
    return;
  }
  Decompose(found->second.first, out);
  if (found->second.second != 0)
    out += found->second.second;  // the second of a pair never decomposes further
}

void Nfc::SortMarks(std::u32string& codes) const {
  auto is_mark = [this](char32_t code) { return CombiningClass(code) != 0; };
  auto end = codes.begin();
  while (end != codes.end()) {
    auto begin = std::find_if(end, codes.end(), is_mark);
    end = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, end, [this](char32_t left, char32_t right) {
      return CombiningClass(left) < CombiningClass(right);
    });
  }
}

// A character composes with the last starter when nothing between the two blocks it: a starter, or
// a mark of the same or a higher class.
void Nfc::Compose(std::u32string& codes) const {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t size = 0;
  size_t starter = kNone;
  uint8_t last_class = 0;  // of the last character kept after the starter
  for (char32_t code : codes) {
    const uint8_t combining = CombiningClass(code);
    if (starter != kNone && (size == starter + 1 || last_class < combining)) {
      if (const char32_t composite = Composite(codes[starter], code); composite != 0) {
        codes[starter] = composite;
        continue;
      }
    }
    if (combining == 0)
      starter = size;
    last_class = combining;
    codes[size++] = code;
  }
  codes.resize(size);
}

char32_t Nfc::Composite(char32_t first, char32_t second) const {
  if (const char32_t hangul = HangulComposite(first, second); hangul != 0)
    return hangul;
  auto found = composites_.find(PairKey(first, second));
  return found == composites_.end() ? 0 : found->second;
}

uint8_t Nfc::CombiningClass(char32_t code) const {
  if (code < 0x300 || code >= kRawByte)
    return 0;
  auto after = std::upper_bound(combining_runs_.begin(), combining_runs_.end(), code << 8 | 0xFF);
  return static_cast<uint8_t>(*std::prev(after) & 0xFF);
}

}  // namespace tenon

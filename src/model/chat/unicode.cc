#include "model/chat/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace tenon::chat {
namespace {

// Code points, both ends included.
struct Range {
  char32_t first;
  char32_t last;
};

// PropList.txt: Other_Lowercase.
constexpr Range kOtherLower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
    {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
    {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
};
// PropList.txt: Other_Uppercase.
constexpr Range kOtherUpper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
};
// DerivedNumericType.txt: Digit, the ones outside category Nd.
constexpr Range kOtherDigit[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};

template <size_t kSize>
bool InRanges(const Range (&ranges)[kSize], char32_t c) {
  const auto* found =
      std::lower_bound(std::begin(ranges), std::end(ranges), c,
                       [](const Range& range, char32_t key) { return range.last < key; });
  return found != std::end(ranges) && found->first <= c;
}

utf8proc_category_t CategoryOf(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Halves of UTF-16 pairs, which are no characters.
bool IsSurrogate(char32_t c) {
  return c >= 0xD800 && c <= 0xDFFF;
}

// The number of bytes the lead byte announces; 0 for one that cannot lead.
int SequenceLength(unsigned char lead) {
  if (lead < 0x80)
    return 1;
  if (lead >= 0xC2 && lead <= 0xDF)
    return 2;
  if (lead >= 0xE0 && lead <= 0xEF)
    return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

// Decodes one character; returns its length, 0 where the bytes are invalid.
size_t TryDecode(std::string_view text, size_t pos, char32_t& out) {
  const auto lead = static_cast<unsigned char>(text[pos]);
  const int length = SequenceLength(lead);
  if (length == 0 || text.size() - pos < static_cast<size_t>(length))
    return 0;
  if (length == 1) {
    out = lead;
    return 1;
  }
  char32_t c = lead & (0x7FU >> length);
  for (int i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[pos + static_cast<size_t>(i)]);
    if ((byte & 0xC0U) != 0x80)
      return 0;
    c = (c << 6) | (byte & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kSmallest[length] || c > 0x10FFFF || IsSurrogate(c))
    return 0;
  out = c;
  return static_cast<size_t>(length);
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Whether the sigma at `pos` (its start) ends a word: a cased letter before it and none after,
// case-ignorable marks aside.
bool IsFinalSigma(std::string_view text, size_t pos) {
  const auto ignorable = [](char32_t c) {
    const utf8proc_category_t category = CategoryOf(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK || c == '\'' || c == 0xB7 || c == 0x2019 || c == '.' ||
           c == ':';
  };
  size_t before = pos;
  bool cased = false;
  while (before > 0 && !cased) {
    size_t at = before = PreviousStart(text, before);
    const char32_t c = DecodeAt(text, at);
    cased = IsCased(c);
    if (!cased && !ignorable(c))
      return false;
  }
  size_t after = pos;
  DecodeAt(text, after);
  while (after < text.size()) {
    const char32_t c = DecodeAt(text, after);
    if (IsCased(c))
      return false;
    if (!ignorable(c))
      break;
  }
  return cased;
}

// Sigma alone has a lower case that depends on its place.
void AppendLower(std::string_view text, size_t start, char32_t c, std::string& out) {
  if (c == 0x3A3)
    AppendUtf8(IsFinalSigma(text, start) ? 0x3C2 : 0x3C3, out);
  else
    AppendCased(c, Case::kLower, out);
}

}  // namespace

char32_t DecodeAt(std::string_view text, size_t& pos) {
  if ((text[pos] & 0x80) == 0)
    return static_cast<unsigned char>(text[pos++]);
  char32_t c = kReplacement;
  const size_t length = TryDecode(text, pos, c);
  pos += length == 0 ? 1 : length;
  return c;
}

size_t PreviousStart(std::string_view text, size_t end) {
  if ((text[end - 1] & 0x80) == 0)
    return end - 1;
  char32_t ignored = 0;
  for (size_t length = 1; length <= 4 && length <= end; ++length) {
    if (TryDecode(text.substr(0, end), end - length, ignored) == length)
      return end - length;
  }
  return end - 1;
}

void AppendUtf8(char32_t c, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

int64_t CountCodePoints(std::string_view text) {
  if (IsAscii(text))
    return static_cast<int64_t>(text.size());
  int64_t count = 0;
  for (size_t pos = 0; pos < text.size(); ++count)
    DecodeAt(text, pos);
  return count;
}

bool IsValidUtf8(std::string_view text) {
  char32_t ignored = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t length = TryDecode(text, pos, ignored);
    if (length == 0)
      return false;
    pos += length;
  }
  return true;
}

size_t ByteOffset(std::string_view text, int64_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index)
    DecodeAt(text, pos);
  return pos;
}

// Unicode's White_Space and the four separators 0x1C-0x1F, as str.isspace.
bool IsSpace(char32_t c) {
  if (c < 0x80)
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Categories L*.
bool IsAlpha(char32_t c) {
  if (c < 0x80)
    return (c | 0x20U) >= 'a' && (c | 0x20U) <= 'z';
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) {
  if (c < 0x80)
    return c >= '0' && c <= '9';
  return CategoryOf(c) == UTF8PROC_CATEGORY_ND;
}

bool IsDigit(char32_t c) {
  return IsDecimal(c) || InRanges(kOtherDigit, c);
}

// Categories Nd, Nl, No.
bool IsNumeric(char32_t c) {
  if (c < 0x80)
    return c >= '0' && c <= '9';
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

// Not in C* or Z*, the space aside.
bool IsPrintable(char32_t c) {
  if (c < 0x80)
    return c >= ' ' && c != 0x7F;
  const utf8proc_category_t category = CategoryOf(c);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

bool IsUpper(char32_t c) {
  if (c < 0x80)
    return c >= 'A' && c <= 'Z';
  return CategoryOf(c) == UTF8PROC_CATEGORY_LU || InRanges(kOtherUpper, c);
}

bool IsLower(char32_t c) {
  if (c < 0x80)
    return c >= 'a' && c <= 'z';
  return CategoryOf(c) == UTF8PROC_CATEGORY_LL || InRanges(kOtherLower, c);
}

// Category Lt.
bool IsTitle(char32_t c) {
  return c >= 0x80 && CategoryOf(c) == UTF8PROC_CATEGORY_LT;
}

// XID_Start and XID_Continue, by categories.
static bool IsIdentifierStart(char32_t c) {
  return c == '_' || IsAlpha(c) || CategoryOf(c) == UTF8PROC_CATEGORY_NL;
}

bool IsIdentifierPart(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return IsIdentifierStart(c) || category == UTF8PROC_CATEGORY_MN ||
         category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ND ||
         category == UTF8PROC_CATEGORY_PC;
}

bool IsIdentifier(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const bool first = pos == 0;
    const char32_t c = DecodeAt(text, pos);
    if (!(first ? IsIdentifierStart(c) : IsIdentifierPart(c)))
      return false;
  }
  return !text.empty();
}

void AppendCased(char32_t c, Case target, std::string& out) {
  if (c < 0x80) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool upper = c >= 'A' && c <= 'Z';
    const char32_t flipped = (target == Case::kLower ? upper : lower) ? c ^ 0x20U : c;
    out.push_back(static_cast<char>(flipped));
    return;
  }
  const CaseSpecial* special = target == Case::kLower ? nullptr : FindCaseSpecial(c);
  const auto code = static_cast<utf8proc_int32_t>(c);
  if (special != nullptr)
    out += target == Case::kUpper ? special->upper : special->title;
  else if (target == Case::kLower && c == 0x130)
    out += "i\xCC\x87";  // the one lower case of two characters
  else if (target == Case::kLower)
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(code)), out);
  else
    AppendUtf8(static_cast<char32_t>(target == Case::kUpper ? utf8proc_toupper(code)
                                                            : utf8proc_totitle(code)),
               out);
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();)
    AppendCased(DecodeAt(text, pos), Case::kUpper, out);
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    AppendLower(text, start, DecodeAt(text, pos), out);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeAt(text, pos);
    if (start == 0)
      AppendCased(c, Case::kTitle, out);
    else
      AppendLower(text, start, c, out);
  }
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeAt(text, pos);
    if (in_word)
      AppendLower(text, start, c, out);
    else
      AppendCased(c, Case::kTitle, out);
    in_word = IsCased(c);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeAt(text, pos);
    if (IsUpper(c))
      AppendLower(text, start, c, out);
    else
      AppendCased(c, IsLower(c) ? Case::kUpper : Case::kLower, out);
  }
  return out;
}

// Full case folding, by utf8proc's tables.
std::string CaseFold(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  if (size < 0)
    return ToLower(text);
  std::string out(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
  std::free(folded);  // utf8proc_map allocates with malloc
  return out;
}

namespace {

template <class Strips>
std::string_view StripLeftIf(std::string_view text, const Strips& strips) {
  size_t pos = 0;
  while (pos < text.size()) {
    size_t next = pos;
    if (!strips(DecodeAt(text, next)))
      break;
    pos = next;
  }
  return text.substr(pos);
}

template <class Strips>
std::string_view StripRightIf(std::string_view text, const Strips& strips) {
  while (!text.empty()) {
    const size_t start = PreviousStart(text, text.size());
    size_t pos = start;
    if (!strips(DecodeAt(text, pos)))
      break;
    text = text.substr(0, start);
  }
  return text;
}

// Whether `chars` holds the character.
auto MemberOf(std::string_view chars) {
  return [chars](char32_t c) {
    for (size_t pos = 0; pos < chars.size();) {
      if (DecodeAt(chars, pos) == c)
        return true;
    }
    return false;
  };
}

}  // namespace

std::string_view StripLeft(std::string_view text) {
  return StripLeftIf(text, IsSpace);
}
std::string_view StripRight(std::string_view text) {
  return StripRightIf(text, IsSpace);
}
std::string_view StripLeft(std::string_view text, std::string_view chars) {
  return StripLeftIf(text, MemberOf(chars));
}
std::string_view StripRight(std::string_view text, std::string_view chars) {
  return StripRightIf(text, MemberOf(chars));
}

}  // namespace tenon::chat

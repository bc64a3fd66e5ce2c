#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

// What may follow a lead byte (Unicode 3.9, table 3-7): the number of bytes after it and the range
// of the first of them; the others are 80..BF.
struct Lead {
  uint32_t follow;
  uint8_t low;
  uint8_t high;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF)
    return {1, 0x80, 0xBF};
  if (byte == 0xE0)
    return {2, 0xA0, 0xBF};
  if (byte == 0xED)
    return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF)
    return {2, 0x80, 0xBF};
  if (byte == 0xF0)
    return {3, 0x90, 0xBF};
  if (byte == 0xF4)
    return {3, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3)
    return {3, 0x80, 0xBF};
  return {0, 0, 0};
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text, size_t position) {
  const auto byte = static_cast<uint8_t>(text[position]);
  if (byte < 0x80)
    return {byte, 1, Utf8State::kValid};
  const Lead lead = LeadOf(byte);
  if (lead.follow == 0)
    return {kReplacement, 1, Utf8State::kInvalid};
  char32_t code = byte & (0x3Fu >> lead.follow);
  for (uint32_t i = 1; i <= lead.follow; ++i) {
    if (position + i == text.size())
      return {kReplacement, i, Utf8State::kTruncated};
    const auto next = static_cast<uint8_t>(text[position + i]);
    if (next < (i == 1 ? lead.low : 0x80) || next > (i == 1 ? lead.high : 0xBF))
      return {kReplacement, i, Utf8State::kInvalid};
    code = code << 6 | (next & 0x3Fu);
  }
  return {code, lead.follow + 1, Utf8State::kValid};
}

std::string_view Utf8Prefix(std::string_view text, size_t limit) {
  while (limit > 0 && (static_cast<uint8_t>(text[limit]) & 0xC0U) == 0x80U)
    --limit;
  return text.substr(0, limit);
}

void AppendUtf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int follow = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const unsigned mark = 0xFF00u >> (follow + 1);  // 110, 1110 or 11110 on top of the low byte
  out += static_cast<char>((mark | code >> (6 * follow)) & 0xFF);
  for (int i = follow - 1; i >= 0; --i)
    out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
}

}  // namespace tenon

#include "model/tokenizer/byte_alphabet.h"

#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  byte_of_.fill(-1);
  size_t shifted = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    byte_of_[IsPrintable(byte) ? static_cast<size_t>(byte) : shifted++] =
        static_cast<int16_t>(byte);
}

std::string SpellBytes(std::string_view text) {
  static const auto spellings = [] {
    std::array<std::string, 256> made;
    char32_t shifted = 0x100;
    for (int byte = 0; byte < 256; ++byte)
      AppendUtf8(IsPrintable(byte) ? static_cast<char32_t>(byte) : shifted++,
                 made[static_cast<size_t>(byte)]);
    return made;
  }();
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (const char letter : text)
    out += spellings[static_cast<uint8_t>(letter)];
  return out;
}

std::string ByteAlphabet::Bytes(std::string_view spelling) const {
  std::string out;
  out.reserve(spelling.size());
  for (size_t at = 0; at < spelling.size();) {
    const Utf8Char c = DecodeUtf8(spelling, at);
    const bool letter = c.state == Utf8State::kValid && c.code < kLetters && byte_of_[c.code] >= 0;
    if (letter)
      out += static_cast<char>(byte_of_[c.code]);
    else
      out.append(spelling, at, c.length);
    at += c.length;
  }
  return out;
}

}  // namespace tenon

// ByteAlphabet: byte-level BPE's spelling of bytes as printable characters, such as "Ġ" for a
// space.
//
// Printable Latin-1 bytes stand for themselves; the others, in order, for U+0100 and after (GPT-2).
// Threading: const after construction; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

class ByteAlphabet {
 public:
  ByteAlphabet();

  // The bytes that a spelling stands for; characters outside the alphabet stay as they are.
  std::string Bytes(std::string_view spelling) const;

 private:
  static constexpr char32_t kLetters = 0x100 + 68;  // 68 bytes are not printable

  std::array<int16_t, kLetters> byte_of_;  // by code point; -1: not in the alphabet
};

// Every byte of `text` in the alphabet's spelling.
std::string SpellBytes(std::string_view text);

}  // namespace tenon

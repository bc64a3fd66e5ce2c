#include "model/tokenizer/named_byte.h"

namespace tenon {
namespace {

int HexDigit(char letter) {
  if (letter >= '0' && letter <= '9')
    return letter - '0';
  return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

}  // namespace

int NamedByte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>')
    return -1;
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace tenon

#include "model/chat/string_escapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "model/chat/template_failure.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class EscapeReader {
 public:
  EscapeReader(std::string_view body, int line) : body_(body), line_(line) {}

  std::string Read() {
    while (pos_ < body_.size()) {
      const char c = body_[pos_];
      if (c == '\\') {
        ++pos_;
        ReadEscape();
      } else {
        out_.push_back(c);
        ++pos_;
      }
    }
    return std::move(out_);
  }

 private:
  void ReadEscape() {
    if (pos_ >= body_.size())
      Fail("\\ at end of string", line_);
    const char c = body_[pos_];
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t simple = kNames.find(c); simple != std::string_view::npos) {
      out_.push_back(kValues[simple]);
      ++pos_;
    } else if (c == '\n') {
      ++pos_;
    } else if (c >= '0' && c <= '7') {
      ReadOctal();
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++pos_;
      ReadHex(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
      Fail("named characters (\\N{...}) in strings are not supported", line_);
    } else {
      KeepUnknown();
    }
  }

  void ReadOctal() {
    char32_t value = 0;
    for (int i = 0; i < 3 && pos_ < body_.size() && body_[pos_] >= '0' && body_[pos_] <= '7'; ++i)
      value = value * 8 + static_cast<char32_t>(body_[pos_++] - '0');
    AppendUtf8(value, out_);
  }

  void ReadHex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = pos_ < body_.size() ? HexDigit(body_[pos_]) : -1;
      if (digit < 0)
        Fail(fmt::format("truncated escape in a string: expected {} hexadecimal digits", digits),
             line_);
      value = value * 16 + static_cast<uint32_t>(digit);
      ++pos_;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
      Fail(fmt::format("a string's escape names no character: U+{:04X}", value), line_);
    AppendUtf8(value, out_);
  }

  // jinja2 escapes every character above ASCII before it resolves escapes, so that a backslash in
  // front of one ends up quoting the number of the character instead.
  void KeepUnknown() {
    const char32_t c = DecodeAt(body_, pos_);
    out_.push_back('\\');
    if (c < 0x80)
      out_.push_back(static_cast<char>(c));
    else if (c < 0x100)
      out_ += fmt::format("x{:02x}", static_cast<uint32_t>(c));
    else if (c < 0x10000)
      out_ += fmt::format("u{:04x}", static_cast<uint32_t>(c));
    else
      out_ += fmt::format("U{:08x}", static_cast<uint32_t>(c));
  }

  std::string_view body_;
  int line_;
  size_t pos_ = 0;
  std::string out_;
};

}  // namespace

std::string ResolveEscapes(std::string_view body, int line) {
  if (body.find('\\') == std::string_view::npos)
    return std::string(body);
  return EscapeReader(body, line).Read();
}

}  // namespace tenon::chat

#include "model/chat/format_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/chat/operators.h"
#include "model/chat/text_of.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// A number taken apart for padding between its sign and its digits.
struct NumberText {
  std::string sign;
  std::string prefix;  // 0x and its like
  std::string digits;
};

// The characters that place a value in its field.
bool IsAlign(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

// A width or precision.
int64_t ReadNumber(std::string_view text, size_t& pos) {
  int64_t number = 0;
  for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
    number = number * 10 + (text[pos] - '0');
    if (number > INT32_MAX)
      Fail("Too many decimal digits in format string");
  }
  return number;
}

// Fills the text up to the width.
void WritePadded(TextBuilder& out, std::string_view text, int64_t length, const FormatSpec& spec,
                 char default_align) {
  const int64_t missing = std::max<int64_t>(0, spec.width - length);
  const char align = spec.align == '\0' ? default_align : spec.align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  out.Repeat(left, spec.fill).Append(text).Repeat(missing - left, spec.fill);
}

// Padding with "=" goes between the sign and the digits.
void WriteNumber(TextBuilder& out, const NumberText& number, const FormatSpec& spec) {
  const std::string head = number.sign + number.prefix;
  if (spec.align == '=') {
    const auto length = static_cast<int64_t>(head.size() + number.digits.size());
    out.Append(head).Repeat(spec.width - length, spec.fill).Append(number.digits);
    return;
  }
  const std::string text = head + number.digits;
  WritePadded(out, text, static_cast<int64_t>(text.size()), spec, '>');
}

std::string SignText(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

// Separators between the groups of the digits before the point.
std::string Grouped(const std::string& digits, char separator, size_t group) {
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % group == 0)
      out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(end);
}

// An integer's digits in the base of the type.
std::string Digits(uint64_t magnitude, char type) {
  switch (type) {
    case 'b':
      return fmt::format("{:b}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    default:
      return std::to_string(magnitude);
  }
}

// 0b, 0o or 0x, which "#" asks for.
std::string PrefixOf(char type) {
  constexpr std::string_view kPrefixed = "boxX";
  return kPrefixed.find(type) == std::string_view::npos ? "" : std::string("0") + type;
}

// snprintf("%.*TYPE").
std::string PrintFloat(Runtime& rt, double real, int64_t precision, char type, bool alternate) {
  constexpr int64_t kMaxPrecision = 100000;  // digits; a double has 767 significant ones
  if (precision > kMaxPrecision)
    Fail("precision too big");
  const std::string format = fmt::format("%{}.*{}", alternate ? "#" : "", type);
  const int digits = static_cast<int>(precision);
  const int size = std::snprintf(nullptr, 0, format.c_str(), digits, real);
  rt.budget().Bytes(static_cast<size_t>(size));
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), digits, real);
  text.pop_back();
  return text;
}

// The digits of a float without its sign.
std::string FloatDigits(Runtime& rt, double magnitude, const FormatSpec& spec) {
  constexpr int64_t kDefaultPrecision = 6;
  if (std::isinf(magnitude) || std::isnan(magnitude)) {
    const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
    const std::string text = std::isnan(magnitude) ? "nan" : "inf";
    return (upper ? ToUpper(text) : text) + (spec.type == '%' ? "%" : "");
  }
  const int64_t precision = spec.precision < 0 ? kDefaultPrecision : spec.precision;
  if (spec.type == '%')
    return PrintFloat(rt, magnitude * 100, precision, 'f', spec.alternate) + "%";
  if (spec.type != '\0')
    return PrintFloat(rt, magnitude, precision, spec.type == 'n' ? 'g' : spec.type, spec.alternate);
  if (spec.precision < 0)
    return FloatText(magnitude);
  std::string text = PrintFloat(rt, magnitude, std::max<int64_t>(1, precision), 'g', false);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

FormatSpec ParseFormatSpec(std::string_view text) {
  FormatSpec spec;
  size_t pos = 0;
  size_t after_fill = 0;
  if (!text.empty())
    DecodeAt(text, after_fill);
  if (after_fill > 0 && after_fill < text.size() && IsAlign(text[after_fill])) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    pos = after_fill + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[pos++];
  }
  const auto at = [&](std::string_view chars) {
    return pos < text.size() && chars.find(text[pos]) != std::string_view::npos;
  };
  if (at("+- "))
    spec.sign = text[pos++];
  if (at("#")) {
    spec.alternate = true;
    ++pos;
  }
  if (at("0")) {
    spec.fill = spec.align == '\0' ? "0" : spec.fill;
    spec.align = spec.align == '\0' ? '=' : spec.align;
    ++pos;
  }
  spec.width = ReadNumber(text, pos);
  if (at(",_"))
    spec.grouping = text[pos++];
  if (at(".")) {
    ++pos;
    if (!at("0123456789"))
      Fail("Format specifier missing precision");
    spec.precision = ReadNumber(text, pos);
  }
  if (pos < text.size())
    spec.type = text[pos++];
  if (pos < text.size())
    Fail(fmt::format("Invalid format specifier '{}'", text));
  return spec;
}

void WriteFormattedText(Runtime& rt, TextBuilder& out, const Value& text, const FormatSpec& spec) {
  std::string_view shown = text.text();
  int64_t length = CharacterCount(rt, text);
  if (spec.precision >= 0 && spec.precision < length) {
    shown = shown.substr(0, ByteOffset(shown, spec.precision));
    length = spec.precision;
  }
  WritePadded(out, shown, length, spec, '<');
}

void WriteFormattedInteger(Runtime& rt, TextBuilder& out, const Value& value,
                           const FormatSpec& spec) {
  const bool negative = value.Is(Kind::kInt) && value.integer < 0;
  const uint64_t magnitude = value.Is(Kind::kUint) ? value.unsigned_integer
                             : negative            ? ~static_cast<uint64_t>(value.integer) + 1
                                                   : static_cast<uint64_t>(ToIndex(value));
  if (spec.type == 'c') {
    if (negative || magnitude > 0x10FFFF || (magnitude >= 0xD800 && magnitude <= 0xDFFF))
      Fail("%c arg not in range(0x110000)");
    std::string character;
    AppendUtf8(static_cast<char32_t>(magnitude), character);
    WriteFormattedText(rt, out, rt.Text(character), spec);
    return;
  }
  NumberText number{SignText(negative, spec.sign), spec.alternate ? PrefixOf(spec.type) : "",
                    Digits(magnitude, spec.type)};
  const auto digits = static_cast<size_t>(std::max<int64_t>(spec.precision, 0));
  if (number.digits.size() < digits) {  // a precision, which only "%" has: at least so many digits
    rt.budget().Bytes(digits);
    number.digits.insert(0, digits - number.digits.size(), '0');
  }
  if (spec.grouping != '\0')
    number.digits = Grouped(number.digits, spec.grouping, PrefixOf(spec.type).empty() ? 3 : 4);
  WriteNumber(out, number, spec);
}

void WriteFormattedFloat(Runtime& rt, TextBuilder& out, double real, const FormatSpec& spec) {
  const bool negative = std::signbit(real) && !std::isnan(real);
  NumberText number{SignText(negative, spec.sign), "", FloatDigits(rt, std::fabs(real), spec)};
  if (spec.grouping != '\0' && std::isfinite(real))
    number.digits = Grouped(number.digits, spec.grouping, 3);
  WriteNumber(out, number, spec);
}

void WriteFormatted(Runtime& rt, TextBuilder& out, const Value& value, std::string_view text) {
  if (text.empty()) {
    WriteText(rt, out, value);
    return;
  }
  FormatSpec spec = ParseFormatSpec(text);
  const auto type_in = [&spec](std::string_view types) {
    return spec.type == '\0' || types.find(spec.type) != std::string_view::npos;
  };
  if (IsString(value) && type_in("s") && spec.align != '=' && spec.sign == '-')
    return WriteFormattedText(rt, out, value, spec);
  if (IsInteger(value) && type_in("bcdoxXn")) {
    if (spec.precision >= 0)
      Fail("Precision not allowed in integer format specifier");
    return WriteFormattedInteger(rt, out, value, spec);
  }
  if (IsNumber(value) && type_in("eEfFgGn%"))
    return WriteFormattedFloat(rt, out, ToDouble(value), spec);
  if (!IsString(value) && !IsNumber(value))
    Fail(fmt::format("unsupported format string passed to {}.__format__", TypeName(value)));
  Fail(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, TypeName(value)));
}

}  // namespace tenon::chat

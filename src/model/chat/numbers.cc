#include "model/chat/numbers.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>

#include "model/chat/template_failure.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

bool IsDigitChar(char c) {
  return c >= '0' && c <= '9';
}
bool IsLetterOrDigit(char c) {
  return IsDigitChar(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

// Without underscores, each of which must stand between two digits; empty if one does not.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      out.push_back(text[i]);
    else if (i == 0 || i + 1 == text.size() || !IsLetterOrDigit(text[i - 1]) ||
             !IsLetterOrDigit(text[i + 1]))
      return std::nullopt;
  }
  return out;
}

// Takes "0x" and its like where the base has or may have it.
int64_t TakePrefix(std::string& digits, int64_t base) {
  const char marker =
      digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int64_t marked = marker == 'b' ? 2 : marker == 'o' ? 8 : marker == 'x' ? 16 : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    digits.erase(0, 2);
    return marked;
  }
  // In base 0 a decimal number has no leading zero.
  const bool zeros = digits.find_first_not_of('0') == std::string::npos;
  if (base == 0 && !digits.empty() && digits[0] == '0' && !zeros)
    return -1;
  return base == 0 ? 10 : base;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36))
    return std::nullopt;
  text = StripRight(StripLeft(text));
  const bool negative = text.substr(0, 1) == "-";
  if (negative || text.substr(0, 1) == "+")
    text.remove_prefix(1);
  std::optional<std::string> digits = WithoutUnderscores(text);
  if (!digits || digits->empty())
    return std::nullopt;
  const int64_t radix = TakePrefix(*digits, base);
  if (radix < 0 || digits->empty() || !IsLetterOrDigit((*digits)[0]))
    return std::nullopt;
  if (negative)
    digits->insert(0, 1, '-');
  int64_t number = 0;
  const char* const end = digits->data() + digits->size();
  const auto parsed = std::from_chars(digits->data(), end, number, static_cast<int>(radix));
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument)
    return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range)
    Fail("integer outside the range of 64 bits");
  return number;
}

std::optional<double> ParseFloat(std::string_view text) {
  text = StripRight(StripLeft(text));
  const std::optional<std::string> plain = WithoutUnderscores(text);
  if (!plain || plain->empty())
    return std::nullopt;
  std::string lower = ToLower(*plain);
  const size_t sign = lower[0] == '+' || lower[0] == '-' ? 1 : 0;
  const std::string magnitude = lower.substr(sign);
  const bool named = magnitude == "inf" || magnitude == "infinity" || magnitude == "nan";
  // strtod would also take hexadecimal numbers.
  if (!named && magnitude.find_first_not_of("0123456789.e+-") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const double real = std::strtod(lower.c_str(), &end);
  if (magnitude.empty() || end != lower.c_str() + lower.size() ||
      (sign == 1 && (magnitude[0] == '+' || magnitude[0] == '-')))
    return std::nullopt;
  return real;
}

}  // namespace tenon::chat

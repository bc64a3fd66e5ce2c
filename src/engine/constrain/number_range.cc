#include "engine/constrain/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Decimal digits that a double keeps.
constexpr size_t kDigits = 15;
// Of an integer without bounds: what a signed 64-bit integer holds, and one less for safety.
constexpr int64_t kIntegerDigits = 18;

// The size of a bound: digits before the point, without leading zeros but for a single one, and
// after it, without trailing ones.
struct Size {
  std::string whole = "0";
  std::string fraction;
  bool is_exclusive = false;
};

class NumberTerms {
 public:
  explicit NumberTerms(Grammar& grammar, NumberKind kind) : grammar_(grammar), kind_(kind) {}

  Grammar::Term Unbounded() {
    using Terms = std::vector<Grammar::Term>;
    const int64_t more = kind_ == NumberKind::kInteger ? kIntegerDigits - 1 : kDigits - 1;
    Terms parts = {
        grammar_.Optional(grammar_.Literal("-")),
        grammar_.Either({grammar_.Literal("0"), grammar_.Sequence({Digit('1'), Digits(0, more)})})};
    if (kind_ == NumberKind::kAny) {
      ByteSet e = ByteRange('e', 'e') | ByteRange('E', 'E');
      ByteSet sign = ByteRange('+', '+') | ByteRange('-', '-');
      parts.push_back(grammar_.Optional(grammar_.Sequence({grammar_.Literal("."), Digits(1, 16)})));
      // Two digits of exponent stay far inside a double's range.
      parts.push_back(grammar_.Optional(grammar_.Sequence(
          {grammar_.Bytes(e), grammar_.Optional(grammar_.Bytes(sign)), Digits(1, 2)})));
    }
    return grammar_.Sequence(std::move(parts));
  }

  // Sizes of at least `low`, and at most `high` if there is one.
  Grammar::Term Sizes(const Size& low, const std::optional<Size>& high) {
    const size_t whole_digits = std::max(low.whole.size(), high ? high->whole.size() : 1);
    fraction_digits_ = kDigits - std::min(kDigits - 1, whole_digits);
    low_ = low;
    high_ = high.value_or(Size());
    if (high.has_value() && low.whole == high->whole)
      return grammar_.Sequence({grammar_.Literal(low.whole), Fraction({true, true})});
    std::vector<Grammar::Term> parts = {
        grammar_.Sequence({grammar_.Literal(low.whole), Fraction({true, false})})};
    const std::string first = std::to_string(std::stoll(low.whole) + 1);
    if (high.has_value()) {
      parts.push_back(grammar_.Sequence({grammar_.Literal(high->whole), Fraction({false, true})}));
      const std::string last = std::to_string(std::stoll(high->whole) - 1);
      if (std::stoll(first) <= std::stoll(last))
        parts.push_back(grammar_.Sequence({Wholes(first, last), Fraction({false, false})}));
    } else {
      const std::string last(kDigits, '9');
      parts.push_back(grammar_.Sequence({Wholes(first, last), Fraction({false, false})}));
    }
    return grammar_.Either(std::move(parts));
  }

 private:
  // Which bounds the digits so far are equal to.
  struct Tight {
    bool low = false;
    bool high = false;
  };

  Grammar::Term Digit(char low, char high = '9') {
    return grammar_.Bytes(ByteRange(static_cast<uint8_t>(low), static_cast<uint8_t>(high)));
  }
  Grammar::Term Digits(int64_t min, int64_t max) { return grammar_.Repeat(Digit('0'), min, max); }

  // Integers from `first` to `last`, by their number of digits.
  Grammar::Term Wholes(const std::string& first, const std::string& last) {
    std::vector<Grammar::Term> parts;
    for (size_t digits = first.size(); digits <= last.size(); ++digits) {
      const std::string low = digits == first.size() ? first : "1" + std::string(digits - 1, '0');
      const std::string high = digits == last.size() ? last : std::string(digits, '9');
      parts.push_back(grammar_.Between(low, high, '0', '9'));
    }
    return grammar_.Either(std::move(parts));
  }

  static char DigitAt(const std::string& digits, size_t at) {
    return at < digits.size() ? digits[at] : '0';
  }
  // Whether the number may end before digit `at` of its fraction.
  bool MayEnd(size_t at, Tight tight) const {
    if (tight.low && (at < low_.fraction.size() || low_.is_exclusive))
      return false;
    return !tight.high || at < high_.fraction.size() || !high_.is_exclusive;
  }

  // Nothing, or a point and digits.
  Grammar::Term Fraction(Tight tight) {
    std::vector<Grammar::Term> parts;
    if (MayEnd(0, tight))
      parts.push_back(grammar_.Empty());
    if (kind_ == NumberKind::kAny)
      parts.push_back(grammar_.Sequence({grammar_.Literal("."), DigitsFrom(0, tight)}));
    return grammar_.Either(std::move(parts));
  }

  // One digit or more, from `at` on.
  Grammar::Term DigitsFrom(size_t at, Tight tight) {
    if (at >= fraction_digits_)
      return grammar_.Never();
    if (!tight.low && !tight.high)
      return Digits(1, static_cast<int64_t>(fraction_digits_ - at));
    char low = tight.low ? DigitAt(low_.fraction, at) : '0';
    char high = tight.high ? DigitAt(high_.fraction, at) : '9';
    std::vector<Grammar::Term> parts;
    const auto add = [&](char from, char to, Tight next) {
      std::vector<Grammar::Term> rest = {DigitsFrom(at + 1, next)};
      if (MayEnd(at + 1, next))
        rest.push_back(grammar_.Empty());
      parts.push_back(grammar_.Sequence({Digit(from, to), grammar_.Either(std::move(rest))}));
    };
    if (tight.low && tight.high && low == high) {
      add(low, high, tight);
      return grammar_.Either(std::move(parts));
    }
    if (tight.low && low <= high)
      add(low, low, {true, false}), ++low;
    if (tight.high && high >= low)
      add(high, high, {false, true}), --high;
    if (low <= high)
      add(low, high, {});
    return grammar_.Either(std::move(parts));
  }

  Grammar& grammar_;
  NumberKind kind_;
  size_t fraction_digits_ = 0;
  Size low_;
  Size high_;
};

Result<Size> SizeOf(const NumberBound& bound) {
  Size size;
  size.is_exclusive = bound.is_exclusive;
  const std::string text = fmt::format("{}", std::abs(bound.value));
  if (text.find_first_not_of("0123456789.") != std::string::npos || std::abs(bound.value) >= 1e14)
    return Unsupported(fmt::format("a bound of {} is not supported", bound.value));
  const size_t point = std::min(text.find('.'), text.size());
  size.whole = text.substr(0, point);
  if (point < text.size())
    size.fraction = text.substr(point + 1);
  size.fraction.erase(size.fraction.find_last_not_of('0') + 1);
  if (size.whole.size() + size.fraction.size() > kDigits)
    return Unsupported(fmt::format("a bound of more than {} digits", kDigits));
  return size;
}

// Integers: bounds become whole and inclusive.
void RoundInwards(std::optional<NumberBound>& low, std::optional<NumberBound>& high) {
  if (low.has_value())
    low = {low->is_exclusive ? std::floor(low->value) + 1 : std::ceil(low->value), false};
  if (high.has_value())
    high = {high->is_exclusive ? std::ceil(high->value) - 1 : std::floor(high->value), false};
}

bool IsEmpty(const std::optional<NumberBound>& low, const std::optional<NumberBound>& high) {
  if (!low.has_value() || !high.has_value())
    return false;
  return low->value > high->value ||
         (low->value == high->value && (low->is_exclusive || high->is_exclusive));
}

}  // namespace

Result<Grammar::Term> NumberBetween(Grammar& grammar, NumberKind kind,
                                    std::optional<NumberBound> low,
                                    std::optional<NumberBound> high) {
  NumberTerms terms(grammar, kind);
  if (!low.has_value() && !high.has_value())
    return terms.Unbounded();
  if (kind == NumberKind::kInteger)
    RoundInwards(low, high);
  if (IsEmpty(low, high))
    return grammar.Never();
  std::optional<Size> low_size;
  std::optional<Size> high_size;
  if (low.has_value()) {
    TENON_ASSIGN_OR_RETURN(low_size, SizeOf(*low));
  }
  if (high.has_value()) {
    TENON_ASSIGN_OR_RETURN(high_size, SizeOf(*high));
  }
  std::vector<Grammar::Term> parts;
  const bool low_is_positive = low.has_value() && low->value >= 0;
  const bool high_is_negative = high.has_value() && high->value < 0;
  if (!high_is_negative && !(high.has_value() && high->value == 0 && high->is_exclusive)) {
    parts.push_back(terms.Sizes(low_is_positive ? *low_size : Size(), high_size));
  }
  // Below zero sizes go the other way round.
  if (!low.has_value() || low->value < 0) {
    const bool to_zero = high.has_value() && high->value == 0 && high->is_exclusive;
    Size least = high_is_negative ? *high_size : Size();
    least.is_exclusive |= to_zero;
    const std::optional<Size> greatest = low.has_value() ? low_size : std::nullopt;
    parts.push_back(grammar.Sequence({grammar.Literal("-"), terms.Sizes(least, greatest)}));
  }
  return grammar.Either(std::move(parts));
}

}  // namespace tenon

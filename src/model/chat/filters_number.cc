// Filters on numbers.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "model/chat/argument_types.h"
#include "model/chat/filters.h"
#include "model/chat/numbers.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"

namespace tenon::chat {
namespace {

constexpr double kInt64Limit = 9.2e18;  // below 2^63

Value Absolute(Runtime& rt, const Value& self, const BoundArguments&) {
  if (self.Is(Kind::kFloat))
    return Value::Float(std::fabs(self.real));
  if (self.Is(Kind::kUint))
    return self;
  if (!IsInteger(self))
    Fail(fmt::format("bad operand type for abs(): '{}'", TypeName(self)));
  const Value number = Plus(rt, self);
  return number.integer < 0 ? Negate(rt, number) : number;
}

// int(real): towards zero.
Value TruncateFloat(double real) {
  if (std::isinf(real))
    Fail("cannot convert float infinity to integer");
  if (!(std::fabs(real) < kInt64Limit))
    Fail("integer outside the range of 64 bits");
  return Value::Int(static_cast<int64_t>(real));
}

// int(value), then int(float(value)), then the default, as jinja2 tries.
Value ToInteger(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value fallback = args.Or(0, Value::Int(0));
  if (IsUndefined(self))
    FailUndefined(rt, self);
  if (IsString(self)) {
    const std::string_view text = self.text();
    rt.budget().Decode(text.size());
    if (const auto integer = ParseInteger(text, IntegerArgument(args, 1, 10)))
      return Value::Int(*integer);
    const auto real = ParseFloat(text);
    return real && std::isfinite(*real) ? TruncateFloat(*real) : fallback;
  }
  if (!IsNumber(self) || (self.Is(Kind::kFloat) && std::isnan(self.real)))
    return fallback;
  return self.Is(Kind::kFloat) ? TruncateFloat(self.real) : Plus(rt, self);
}

// float(value) or the default.
Value ToFloat(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value fallback = args.Or(0, Value::Float(0));
  if (IsUndefined(self))
    FailUndefined(rt, self);
  if (IsNumber(self))
    return Value::Float(ToDouble(self));
  rt.budget().Decode(IsString(self) ? self.string->bytes : 0);
  const auto real = IsString(self) ? ParseFloat(self.text()) : std::nullopt;
  return real ? Value::Float(*real) : fallback;
}

// round(real, digits): through decimal, so that it rounds what the number exactly is.
double RoundFloat(double real, int64_t digits) {
  constexpr int64_t kExact = 330;  // no double has more decimals that matter
  if (!std::isfinite(real) || digits > kExact)
    return real;
  if (digits < -kExact)
    return std::copysign(0.0, real);
  if (digits >= 0) {
    char buffer[700];  // 309 digits, a point and `digits` more
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(digits), real);
    return std::strtod(buffer, nullptr);
  }
  const long double unit = std::pow(10.0L, static_cast<long double>(-digits));
  return static_cast<double>(std::nearbyint(static_cast<long double>(real) / unit) * unit);
}

// Half to even, as Python rounds integers to tens.
Value RoundInteger(int64_t number, int64_t digits) {
  constexpr int64_t kMostDigits = 18;  // of a power of ten that fits
  if (digits >= 0)
    return Value::Int(number);
  if (digits < -kMostDigits)
    return Value::Int(0);
  int64_t unit = 1;
  for (int64_t i = 0; i < -digits; ++i)
    unit *= 10;
  int64_t quotient = number / unit;
  const int64_t rest = std::abs(number % unit);
  if (rest > unit / 2 || (rest == unit / 2 && quotient % 2 != 0))
    quotient += number < 0 ? -1 : 1;
  int64_t rounded = 0;
  if (__builtin_mul_overflow(quotient, unit, &rounded))
    Fail("integer result outside the range of 64 bits");
  return Value::Int(rounded);
}

// math.ceil or math.floor of value * 10**precision, over 10**precision.
Value RoundTowards(Runtime& rt, const Value& self, const Value& precision,
                   double (*round)(double)) {
  const Value scale = Arithmetic(rt, Operator::kPower, Value::Int(10), precision);
  const Value scaled = Arithmetic(rt, Operator::kMultiply, self, scale);
  if (scaled.Is(Kind::kInt))
    return Arithmetic(rt, Operator::kDivide, scaled, scale);
  const Value whole = TruncateFloat(round(ToDouble(scaled)));
  return Arithmetic(rt, Operator::kDivide, whole, scale);
}

// `common` rounds half to even; an integer stays one, except with ceil and floor.
Value Round(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view method = args.Has(1) ? TextArgument(args, 1) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    Fail("method must be common, ceil or floor");
  if (IsUndefined(self))
    FailUndefined(rt, self);
  if (!IsNumber(self))
    Fail(fmt::format("type {} doesn't define __round__ method", TypeName(self)));
  if (method != "common")
    return RoundTowards(rt, self, args.Or(0, Value::Int(0)),
                        method == "ceil" ? static_cast<double (*)(double)>(std::ceil)
                                         : static_cast<double (*)(double)>(std::floor));
  const int64_t digits = IntegerArgument(args, 0, 0);
  if (self.Is(Kind::kFloat))
    return Value::Float(RoundFloat(self.real, digits));
  return self.Is(Kind::kUint) ? self : RoundInteger(ToIndex(self), digits);
}

// 1500000 as "1.5 MB".
Value FileSize(Runtime& rt, const Value& self, const BoundArguments& args) {
  rt.budget().Decode(IsString(self) ? self.string->bytes : 0);
  const auto parsed = IsString(self) ? ParseFloat(self.text()) : std::nullopt;
  if (IsUndefined(self))
    FailUndefined(rt, self);
  if (!IsNumber(self) && !parsed)
    Fail(fmt::format("could not convert {} to float", TypeName(self)));
  const double bytes = parsed ? *parsed : ToDouble(self);
  const bool binary = FlagArgument(args, 0);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1)
    return rt.View("1 Byte");
  if (bytes < base)
    return rt.Text(fmt::format("{} Bytes", TruncateFloat(bytes).integer));
  constexpr std::string_view kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr std::string_view kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < std::size(kDecimal) && bytes >= unit; ++i)
    unit *= base;
  return rt.Text(fmt::format("{:.1f} {}", base * bytes / unit, binary ? kBinary[i] : kDecimal[i]));
}

constexpr Builtin kFilters[] = {
    {"abs", "", 0, Absolute},
    {"filesizeformat", "binary", 0, FileSize},
    {"float", "default", 0, ToFloat},
    {"int", "default base", 0, ToInteger},
    {"round", "precision method", 0, Round},
};

}  // namespace

std::span<const Builtin> NumberFilters() {
  return kFilters;
}

}  // namespace tenon::chat

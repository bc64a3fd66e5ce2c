#include <fmt/format.h>

#include <cmath>

#include "model/chat/format_text.h"
#include "model/chat/operators.h"
#include "model/chat/template_failure.h"
#include "model/chat/text_of.h"

namespace tenon::chat {
namespace {

[[noreturn]] void FailOverflow() {
  Fail("integer result outside the range of 64 bits");
}

std::string_view Symbol(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void FailOperands(Operator op, const Value& a, const Value& b) {
  if (op == Operator::kAdd && IsString(a))
    Fail(fmt::format("can only concatenate str (not \"{}\") to str", TypeName(b)));
  if (op == Operator::kAdd && IsSequence(a))
    Fail(fmt::format("can only concatenate {0} (not \"{1}\") to {0}", TypeName(a), TypeName(b)));
  Fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", Symbol(op), TypeName(a),
                   TypeName(b)));
}

// Rounds down, where C++ rounds towards zero.
int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == -1) {
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &negated))
      FailOverflow();
    return negated;
  }
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// The remainder has the sign of the divisor.
int64_t FloorModulo(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// A negative exponent gives a float.
Value IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0)
      Fail("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1)
    return Value::Int(exponent == 0 ? 1 : base);
  if (base == -1)
    return Value::Int(exponent % 2 == 0 ? 1 : -1);
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {  // at most 63 rounds before it overflows
    if (__builtin_mul_overflow(result, base, &result))
      FailOverflow();
  }
  return Value::Int(result);
}

Value IntegerArithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kPower:
      return IntegerPower(a, b);
    case Operator::kDivide:
      if (b == 0)
        Fail("division by zero");
      return Value::Float(
          static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Operator::kFloorDivide:
      if (b == 0)
        Fail("integer division or modulo by zero");
      return Value::Int(FloorDivide(a, b));
    default:
      if (b == 0)
        Fail("integer modulo by zero");
      return Value::Int(FloorModulo(a, b));
  }
  if (overflow)
    FailOverflow();
  return Value::Int(result);
}

// Python's float divmod: the remainder has the sign of the divisor.
double FloatModulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0)
    return std::copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

// CPython's float_divmod: the quotient that belongs to FloatModulo.
double FloatFloorDivide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0))
    quotient -= 1;
  if (quotient == 0)
    return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

// Python's errors where C gives infinity or NaN.
double FloatPower(double a, double b) {
  if (a == 0 && b < 0)
    Fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && std::trunc(b) != b)
    Fail("a negative number to a fractional power is complex, which is not supported");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
    Fail("(34, 'Numerical result out of range')");
  return result;
}

Value FloatArithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::Float(a + b);
    case Operator::kSubtract:
      return Value::Float(a - b);
    case Operator::kMultiply:
      return Value::Float(a * b);
    case Operator::kPower:
      return Value::Float(FloatPower(a, b));
    case Operator::kDivide:
      if (b == 0)
        Fail("float division by zero");
      return Value::Float(a / b);
    case Operator::kFloorDivide:
      if (b == 0)
        Fail("float floor division by zero");
      return Value::Float(FloatFloorDivide(a, b));
    default:
      if (b == 0)
        Fail("float modulo");
      return Value::Float(FloatModulo(a, b));
  }
}

// In floats if either operand is one; bools are 0 and 1.
Value NumberArithmetic(Operator op, const Value& a, const Value& b) {
  if (a.Is(Kind::kFloat) || b.Is(Kind::kFloat))
    return FloatArithmetic(op, ToDouble(a), ToDouble(b));
  if (a.Is(Kind::kUint) || b.Is(Kind::kUint))
    FailOverflow();
  return IntegerArithmetic(op, ToIndex(a), ToIndex(b));
}

// Text that joins marked text is escaped, as markupsafe does.
Value ConcatenateTexts(Runtime& rt, const Value& a, const Value& b) {
  const bool markup = a.string->markup || b.string->markup;
  TextBuilder out(rt);
  for (const Value* part : {&a, &b}) {
    if (markup && !part->string->markup)
      WriteEscaped(out, part->text());
    else
      out.Append(part->text());
  }
  const Value text = out.Finish();
  return markup ? rt.Markup(text) : text;
}

Value ConcatenateSequences(Runtime& rt, const Value& a, const Value& b) {
  const size_t size = a.sequence->size + b.sequence->size;
  rt.budget().Step(static_cast<int64_t>(size / 8));
  Value* items = rt.arena().NewArray<Value>(size);
  std::copy(b.begin(), b.end(), std::copy(a.begin(), a.end(), items));
  return rt.Sequence(a.kind, items, size);
}

// A negative count gives an empty value.
Value Repeat(Runtime& rt, const Value& value, int64_t count) {
  if (IsString(value)) {
    TextBuilder out(rt);
    return out.Repeat(count, value.text()).Finish();
  }
  const size_t size = value.sequence->size;
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  size_t total = 0;
  if (__builtin_mul_overflow(size, times, &total))
    total = SIZE_MAX;
  Value* items = rt.arena().NewArray<Value>(total);
  for (size_t i = 0; i < total; ++i)
    items[i] = value.sequence->items[i % size];
  return rt.Sequence(value.kind, items, total);
}

bool IsRepeatable(const Value& value) {
  return IsString(value) || IsSequence(value);
}

}  // namespace

Value Arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kModulo && IsString(a))
    return FormatPercent(rt, a, b);
  if (IsUndefined(a) || IsUndefined(b))
    FailUndefined(rt, IsUndefined(a) ? a : b);
  if (IsNumber(a) && IsNumber(b))
    return NumberArithmetic(op, a, b);
  if (op == Operator::kAdd && IsString(a) && IsString(b))
    return ConcatenateTexts(rt, a, b);
  if (op == Operator::kAdd && IsSequence(a) && a.kind == b.kind)
    return ConcatenateSequences(rt, a, b);
  if (op == Operator::kMultiply && IsRepeatable(a) && IsInteger(b))
    return Repeat(rt, a, ToIndex(b));
  if (op == Operator::kMultiply && IsRepeatable(b) && IsInteger(a))
    return Repeat(rt, b, ToIndex(a));
  FailOperands(op, a, b);
}

Value Negate(Runtime& rt, const Value& value) {
  if (IsUndefined(value))
    FailUndefined(rt, value);
  if (value.Is(Kind::kFloat))
    return Value::Float(-value.real);
  if (!IsNumber(value))
    Fail(fmt::format("bad operand type for unary -: '{}'", TypeName(value)));
  if (value.Is(Kind::kUint))
    FailOverflow();
  return IntegerArithmetic(Operator::kSubtract, 0, ToIndex(value));
}

Value Plus(Runtime& rt, const Value& value) {
  if (IsUndefined(value))
    FailUndefined(rt, value);
  if (!IsNumber(value))
    Fail(fmt::format("bad operand type for unary +: '{}'", TypeName(value)));
  return value.Is(Kind::kBool) ? Value::Int(value.boolean ? 1 : 0) : value;
}

}  // namespace tenon::chat

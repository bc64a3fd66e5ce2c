// The tests of jinja2: what may follow `is`.
#include <algorithm>

#include "model/chat/attributes.h"
#include "model/chat/builtin.h"
#include "model/chat/iteration.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_of.h"

namespace tenon::chat {
namespace {

// An undefined value counts: it has a __call__, which fails.
bool IsCallable(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kLoop:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

// Whether len(value) and value[...] both exist.
bool IsSubscriptable(const Value& value) {
  return IsString(value) || IsSequence(value) || value.Is(Kind::kDict) || value.Is(Kind::kRange) ||
         IsUndefined(value);
}

template <bool (*kPredicate)(const Value&)>
Value Predicate(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(kPredicate(self));
}

bool IsDefined(const Value& value) {
  return !IsUndefined(value);
}
bool IsNone(const Value& value) {
  return value.Is(Kind::kNone);
}
bool IsBoolean(const Value& value) {
  return value.Is(Kind::kBool);
}
bool IsTrue(const Value& value) {
  return value.Is(Kind::kBool) && value.boolean;
}
bool IsFalse(const Value& value) {
  return value.Is(Kind::kBool) && !value.boolean;
}
bool IsWholeNumber(const Value& value) {
  return value.Is(Kind::kInt) || value.Is(Kind::kUint);
}
bool IsFloat(const Value& value) {
  return value.Is(Kind::kFloat);
}
bool IsMapping(const Value& value) {
  return value.Is(Kind::kDict);
}
bool IsLoopOrIterable(const Value& value) {
  return IsIterable(value) || value.Is(Kind::kLoop);
}
bool IsEscaped(const Value& value) {
  return IsString(value) && value.string->markup;
}

// The comparisons under their several names.
template <Operator kOperator>
Value Compared(Runtime& rt, const Value& self, const BoundArguments& args) {
  return Value::Bool(Compare(rt, kOperator, self, args[0]));
}

// Whether value % divisor == rest.
Value Divides(Runtime& rt, const Value& self, const Value& divisor, int64_t rest) {
  const Value modulo = Arithmetic(rt, Operator::kModulo, self, divisor);
  return Value::Bool(Equal(rt, modulo, Value::Int(rest)));
}

Value IsOdd(Runtime& rt, const Value& self, const BoundArguments&) {
  return Divides(rt, self, Value::Int(2), 1);
}

Value IsEven(Runtime& rt, const Value& self, const BoundArguments&) {
  return Divides(rt, self, Value::Int(2), 0);
}

Value IsDivisible(Runtime& rt, const Value& self, const BoundArguments& args) {
  return Divides(rt, self, args[0], 0);
}

template <const char* kMethod>
Value TextPasses(Runtime& rt, const Value& self, const BoundArguments&) {
  const Value text = TextOf(rt, self);
  return CallBuiltin(rt, *FindMethod(text, kMethod), text, {});
}

constexpr char kIsLower[] = "islower";
constexpr char kIsUpper[] = "isupper";

// Python compares addresses; equal small values have one.
Value IsSameAs(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value& other = args[0];
  const bool scalar = IsNumber(self) || IsString(self) || IsNone(self);
  if (self.kind != other.kind || IsUndefined(self))
    return Value::Bool(self.kind == other.kind && self.undefined == other.undefined);
  return Value::Bool(scalar ? Equal(rt, self, other)
                            : self.unsigned_integer == other.unsigned_integer);
}

Value IsFilterName(Runtime& rt, const Value& self, const BoundArguments&) {
  HashOf(rt, self);  // jinja2 looks the value up in a dict
  return Value::Bool(IsString(self) && FindFilter(self.text()) != nullptr);
}

Value IsTestName(Runtime& rt, const Value& self, const BoundArguments&) {
  HashOf(rt, self);
  return Value::Bool(IsString(self) && FindTest(self.text()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"!=", "other", 1, Compared<Operator::kNotEqual>},
    {"<", "other", 1, Compared<Operator::kLess>},
    {"<=", "other", 1, Compared<Operator::kLessEqual>},
    {"==", "other", 1, Compared<Operator::kEqual>},
    {">", "other", 1, Compared<Operator::kGreater>},
    {">=", "other", 1, Compared<Operator::kGreaterEqual>},
    {"boolean", "", 0, Predicate<IsBoolean>},
    {"callable", "", 0, Predicate<IsCallable>},
    {"defined", "", 0, Predicate<IsDefined>},
    {"divisibleby", "num", 1, IsDivisible},
    {"eq", "other", 1, Compared<Operator::kEqual>},
    {"equalto", "other", 1, Compared<Operator::kEqual>},
    {"escaped", "", 0, Predicate<IsEscaped>},
    {"even", "", 0, IsEven},
    {"false", "", 0, Predicate<IsFalse>},
    {"filter", "", 0, IsFilterName},
    {"float", "", 0, Predicate<IsFloat>},
    {"ge", "other", 1, Compared<Operator::kGreaterEqual>},
    {"greaterthan", "other", 1, Compared<Operator::kGreater>},
    {"gt", "other", 1, Compared<Operator::kGreater>},
    {"in", "seq", 1, Compared<Operator::kIn>},
    {"integer", "", 0, Predicate<IsWholeNumber>},
    {"iterable", "", 0, Predicate<IsLoopOrIterable>},
    {"le", "other", 1, Compared<Operator::kLessEqual>},
    {"lessthan", "other", 1, Compared<Operator::kLess>},
    {"lower", "", 0, TextPasses<kIsLower>},
    {"lt", "other", 1, Compared<Operator::kLess>},
    {"mapping", "", 0, Predicate<IsMapping>},
    {"ne", "other", 1, Compared<Operator::kNotEqual>},
    {"none", "", 0, Predicate<IsNone>},
    {"number", "", 0, Predicate<IsNumber>},
    {"odd", "", 0, IsOdd},
    {"sameas", "other", 1, IsSameAs},
    {"sequence", "", 0, Predicate<IsSubscriptable>},
    {"string", "", 0, Predicate<IsString>},
    {"test", "", 0, IsTestName},
    {"true", "", 0, Predicate<IsTrue>},
    {"undefined", "", 0, Predicate<IsUndefined>},
    {"upper", "", 0, TextPasses<kIsUpper>},
};

}  // namespace

const Builtin* FindTest(std::string_view name) {
  return FindBuiltin(kTests, name);
}

}  // namespace tenon::chat

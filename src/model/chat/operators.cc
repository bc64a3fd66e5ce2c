#include "model/chat/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/chat/iteration.h"
#include "model/chat/text_of.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// Exact for every 64-bit integer and every double: 64 bits of mantissa or more.
long double ToLongDouble(const Value& value) {
  switch (value.kind) {
    case Kind::kBool:
      return value.boolean ? 1 : 0;
    case Kind::kInt:
      return static_cast<long double>(value.integer);
    case Kind::kUint:
      return static_cast<long double>(value.unsigned_integer);
    default:
      return value.real;
  }
}

bool EqualSequences(Runtime& rt, const Value& a, const Value& b) {
  if (a.sequence == b.sequence)
    return true;
  if (a.sequence->size != b.sequence->size)
    return false;
  for (size_t i = 0; i < a.sequence->size; ++i) {
    if (!Equal(rt, a.sequence->items[i], b.sequence->items[i]))
      return false;
  }
  return true;
}

// The order of the keys does not matter.
bool EqualDicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (&a == &b)
    return true;
  if (a.size != b.size)
    return false;
  for (size_t i = 0; i < a.size; ++i) {
    const Value* other = b.Find(rt, a.entries[i].key);
    if (other == nullptr || !Equal(rt, a.entries[i].value, *other))
      return false;
  }
  return true;
}

// By the numbers they hold.
bool EqualRanges(const RangeObject& a, const RangeObject& b) {
  if (a.size != b.size)
    return false;
  return a.size == 0 || (a.start == b.start && (a.size == 1 || a.step == b.step));
}

bool EqualTexts(Runtime& rt, std::string_view a, std::string_view b) {
  rt.budget().Scan(std::min(a.size(), b.size()));
  return a == b;
}

template <class T>
bool Holds(Operator op, const T& a, const T& b) {
  switch (op) {
    case Operator::kLess:
      return a < b;
    case Operator::kLessEqual:
      return a <= b;
    case Operator::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

std::string_view Symbol(Operator op) {
  switch (op) {
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    default:
      return ">=";
  }
}

// By the first elements that differ, then by length.
bool OrderedSequences(Runtime& rt, Operator op, const Value& a, const Value& b) {
  const DepthGuard guard(rt);
  const size_t common = std::min(a.sequence->size, b.sequence->size);
  for (size_t i = 0; i < common; ++i) {
    rt.budget().Step();
    if (!Equal(rt, a.sequence->items[i], b.sequence->items[i]))
      return Ordered(rt, op, a.sequence->items[i], b.sequence->items[i]);
  }
  return Holds(op, a.sequence->size, b.sequence->size);
}

bool ContainsText(Runtime& rt, const Value& container, const Value& item) {
  if (!IsString(item))
    Fail(fmt::format("'in <string>' requires string as left operand, not {}", TypeName(item)));
  const std::string_view text = container.text();
  const std::string_view part = item.text();
  rt.budget().Scan(text.size());
  // memmem takes linear time; string_view::find does not.
  return part.empty() || memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// Element by element; an iterator is used up on the way.
bool ContainsByScan(Runtime& rt, const Value& container, const Value& item) {
  Iteration iteration(rt, container);
  Value other;
  while (iteration.Next(rt, other)) {
    if (Equal(rt, other, item))
      return true;
  }
  return false;
}

}  // namespace

bool Truth(const Value& value) {
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.boolean;
    case Kind::kInt:
      return value.integer != 0;
    case Kind::kFloat:
      return value.real != 0;
    case Kind::kString:
      return value.string->bytes != 0;
    case Kind::kList:
    case Kind::kTuple:
      return value.sequence->size != 0;
    case Kind::kDict:
      return value.dict->size != 0;
    case Kind::kDictView:
      return value.view->dict->size != 0;
    case Kind::kRange:
      return value.range->size != 0;
    default:
      return true;
  }
}

// Literals carry their count already, so that threads share them unchanged.
int64_t CharacterCount(Runtime& rt, const Value& text) {
  if (text.string->length < 0) {
    rt.budget().Decode(text.string->bytes);
    text.string->length = CountCodePoints(text.text());
  }
  return text.string->length;
}

double ToDouble(const Value& value) {
  return static_cast<double>(ToLongDouble(value));
}

int64_t ToIndex(const Value& value) {
  if (value.Is(Kind::kInt))
    return value.integer;
  if (value.Is(Kind::kBool))
    return value.boolean ? 1 : 0;
  if (value.Is(Kind::kUint))
    Fail("Python int too large to convert to C ssize_t");
  Fail(fmt::format("'{}' object cannot be interpreted as an integer", TypeName(value)));
}

bool Equal(Runtime& rt, const Value& a, const Value& b) {
  const DepthGuard guard(rt);
  rt.budget().Step();
  if (IsNumber(a) && IsNumber(b)) {
    if (a.Is(Kind::kInt) && b.Is(Kind::kInt))
      return a.integer == b.integer;
    return ToLongDouble(a) == ToLongDouble(b);
  }
  if (a.kind != b.kind)
    return false;
  switch (a.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return EqualTexts(rt, a.text(), b.text());
    case Kind::kList:
    case Kind::kTuple:
      return EqualSequences(rt, a, b);
    case Kind::kDict:
      return EqualDicts(rt, *a.dict, *b.dict);
    case Kind::kRange:
      return EqualRanges(*a.range, *b.range);
    case Kind::kMethod:
      return a.method->method == b.method->method &&
             Equal(rt, a.method->receiver, b.method->receiver);
    default:
      return a.unsigned_integer == b.unsigned_integer;  // the same object
  }
}

bool Ordered(Runtime& rt, Operator op, const Value& a, const Value& b) {
  if (IsUndefined(a) || IsUndefined(b))
    FailUndefined(rt, IsUndefined(a) ? a : b);
  if (IsNumber(a) && IsNumber(b))
    return Holds(op, ToLongDouble(a), ToLongDouble(b));
  if (IsString(a) && IsString(b)) {
    rt.budget().Scan(std::min(a.string->bytes, b.string->bytes));
    return Holds(op, a.text(), b.text());  // UTF-8 sorts as code points do
  }
  if (IsSequence(a) && a.kind == b.kind)
    return OrderedSequences(rt, op, a, b);
  Fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", Symbol(op), TypeName(a),
                   TypeName(b)));
}

bool Compare(Runtime& rt, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return Equal(rt, a, b);
    case Operator::kNotEqual:
      return !Equal(rt, a, b);
    case Operator::kIn:
      return Contains(rt, b, a);
    case Operator::kNotIn:
      return !Contains(rt, b, a);
    default:
      return Ordered(rt, op, a, b);
  }
}

bool Contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::kString:
      return ContainsText(rt, container, item);
    case Kind::kDict:
      return container.dict->Find(rt, item) != nullptr;
    case Kind::kDictView:
      if (container.view->kind == ViewKind::kKeys)
        return container.view->dict->Find(rt, item) != nullptr;
      return ContainsByScan(rt, container, item);
    default:
      if (!IsIterable(container))
        Fail(fmt::format("argument of type '{}' is not iterable", TypeName(container)));
      return ContainsByScan(rt, container, item);
  }
}

std::string UndefinedMessage(Runtime& rt, const Value& value) {
  const UndefinedObject& undefined = *value.undefined;
  if (!undefined.hint.empty())
    return std::string(undefined.hint);
  const std::string name = ReprOf(rt, undefined.name);
  if (undefined.owner.Is(Kind::kMissing))
    return fmt::format("{} is undefined", name);
  const std::string owner = ObjectTypeName(undefined.owner);
  if (!IsString(undefined.name))
    return fmt::format("{} has no element {}", owner, name);
  return fmt::format("'{}' has no attribute {}", owner, name);
}

void FailUndefined(Runtime& rt, const Value& value) {
  Fail(UndefinedMessage(rt, value));
}

}  // namespace tenon::chat

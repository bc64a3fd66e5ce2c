// Python's operators on values.
#pragma once

#include <string>

#include "model/chat/ast.h"
#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

bool Truth(const Value& value);

// The number of characters of a string, counted once. REQUIRES: kString.
int64_t CharacterCount(Runtime& rt, const Value& text);

bool Equal(Runtime& rt, const Value& a, const Value& b);
// <, <=, > or >=. Fails for types without an order.
bool Ordered(Runtime& rt, Operator op, const Value& a, const Value& b);
// Any of the comparison operators, `in` and `not in` included.
bool Compare(Runtime& rt, Operator op, const Value& a, const Value& b);
bool Contains(Runtime& rt, const Value& container, const Value& item);

Value Arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b);
Value Negate(Runtime& rt, const Value& value);
Value Plus(Runtime& rt, const Value& value);

// The message of an undefined value: "'x' is undefined", ...
std::string UndefinedMessage(Runtime& rt, const Value& value);
[[noreturn]] void FailUndefined(Runtime& rt, const Value& value);

// An index or count: an int or bool. Fails with Python's words otherwise.
int64_t ToIndex(const Value& value);
// A number as a double. REQUIRES: IsNumber.
double ToDouble(const Value& value);

}  // namespace tenon::chat

// Values as text: Python's str() and repr().
#pragma once

#include <string>
#include <string_view>

#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

// str(value).
void WriteText(Runtime& rt, TextBuilder& out, const Value& value);
// repr(value).
void WriteRepr(Runtime& rt, TextBuilder& out, const Value& value);
// A text as a quoted Python literal.
void WriteQuoted(TextBuilder& out, std::string_view text);
// With & < > ' " as HTML entities.
void WriteEscaped(TextBuilder& out, std::string_view text);

// str(value) as a value; a string is itself.
Value TextOf(Runtime& rt, const Value& value);
std::string ReprOf(Runtime& rt, const Value& value);

// The shortest text that reads back as the number, as Python prints it: 1.0, 1e-05, inf, nan.
std::string FloatText(double real);
// An int or bool in decimal. REQUIRES: kBool, kInt or kUint.
std::string IntegerText(const Value& value);

// How jinja2 names the type in its messages: "dict object", "None", "jinja2.utils.Namespace
// object".
std::string ObjectTypeName(const Value& value);

}  // namespace tenon::chat

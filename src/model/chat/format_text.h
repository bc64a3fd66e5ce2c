// Python's two ways to format: "..." % values and "...".format(...).
#pragma once

#include <string_view>

#include "model/chat/builtin.h"
#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

// text % values: a tuple gives many values, a dict named ones.
Value FormatPercent(Runtime& rt, const Value& text, const Value& values);
// text.format(...).
Value FormatBraces(Runtime& rt, std::string_view text, const Arguments& arguments);

}  // namespace tenon::chat

// The filters of jinja2, in groups.
#pragma once

#include <span>

#include "model/chat/builtin.h"

namespace tenon::chat {

std::span<const Builtin> TextFilters();
std::span<const Builtin> NumberFilters();
std::span<const Builtin> SequenceFilters();
std::span<const Builtin> OrderFilters();   // the ones that sort or compare
std::span<const Builtin> SelectFilters();  // map, select and their like

// The filter or test of that name called on a value, as map and select do; fails for an unknown
// name.
Value CallFilterByName(Runtime& rt, const Value& name, const Value& input, const Arguments& args);
bool CallTestByName(Runtime& rt, const Value& name, const Value& input, const Arguments& args);

}  // namespace tenon::chat

// The methods of Python's types that a template may call.
#pragma once

#include <span>

#include "model/chat/builtin.h"

namespace tenon::chat {

std::span<const Builtin> StringMethods();
std::span<const Builtin> StringSearchMethods();  // the ones that look for a part
std::span<const Builtin> SequenceMethods();      // of list, tuple and range
std::span<const Builtin> DictMethods();
std::span<const Builtin> FloatMethods();
std::span<const Builtin> CyclerMethods();
std::span<const Builtin> DictTypeMethods();  // of the global `dict` itself

// dict(mapping or pairs): adds the entries of `source` to `dict`.
void AddEntries(Runtime& rt, Dict& dict, const Value& source);

}  // namespace tenon::chat

// Arguments of builtins as C++ types; the failures are Python's TypeErrors.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/chat/builtin.h"
#include "model/chat/value.h"

namespace tenon::chat {

// A string argument; fails for any other type.
std::string_view TextArgument(const BoundArguments& args, size_t i);
// An integer argument, or the fallback where none was given.
int64_t IntegerArgument(const BoundArguments& args, size_t i, int64_t fallback);
// The truth of an argument, or false where none was given.
bool FlagArgument(const BoundArguments& args, size_t i);

}  // namespace tenon::chat

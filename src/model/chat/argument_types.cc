#include "model/chat/argument_types.h"

#include <fmt/format.h>

#include "model/chat/operators.h"
#include "model/chat/template_failure.h"

namespace tenon::chat {

std::string_view TextArgument(const BoundArguments& args, size_t i) {
  if (!IsString(args[i]))
    Fail(fmt::format("expected str as argument {}, not {}", i + 1, TypeName(args[i])));
  return args[i].text();
}

int64_t IntegerArgument(const BoundArguments& args, size_t i, int64_t fallback) {
  return args.Has(i) ? ToIndex(args[i]) : fallback;
}

bool FlagArgument(const BoundArguments& args, size_t i) {
  return Truth(args[i]);
}

}  // namespace tenon::chat

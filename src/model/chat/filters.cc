#include "model/chat/filters.h"

#include <fmt/format.h>

#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_of.h"

namespace tenon::chat {
namespace {

Value Refuse(Runtime&, const Value&, const BoundArguments&) {
  Fail("the filters pprint, random, striptags, urlize, wordwrap and xmlattr are not supported");
}

// jinja2 has these; a chat template has no use for them.
constexpr Builtin kRefused[] = {
    {"pprint", "*", 0, Refuse}, {"random", "*", 0, Refuse},   {"striptags", "*", 0, Refuse},
    {"urlize", "*", 0, Refuse}, {"wordwrap", "*", 0, Refuse}, {"xmlattr", "*", 0, Refuse},
};

template <class Find>
const Builtin& Named(Runtime& rt, const Value& name, const char* what, const Find& find) {
  if (!IsString(name) && !IsUndefined(name))
    Fail(fmt::format("No {} named {}.", what, ReprOf(rt, name)));
  const Builtin* found = IsString(name) ? find(name.text()) : nullptr;
  if (found != nullptr)
    return *found;
  if (IsUndefined(name))
    Fail(fmt::format("No {} named Undefined. ({}; did you forget to quote the callable name?)",
                     what, UndefinedMessage(rt, name)));
  Fail(fmt::format("No {} named {}.", what, ReprOf(rt, name)));
}

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  for (const auto& table :
       {TextFilters(), NumberFilters(), SequenceFilters(), OrderFilters(), SelectFilters()}) {
    if (const Builtin* found = FindBuiltin(table, name))
      return found;
  }
  return FindBuiltin(kRefused, name);
}

Value CallFilterByName(Runtime& rt, const Value& name, const Value& input, const Arguments& args) {
  const DepthGuard guard(rt);
  return CallBuiltin(rt, Named(rt, name, "filter", FindFilter), input, args);
}

bool CallTestByName(Runtime& rt, const Value& name, const Value& input, const Arguments& args) {
  return Truth(CallBuiltin(rt, Named(rt, name, "test", FindTest), input, args));
}

}  // namespace tenon::chat

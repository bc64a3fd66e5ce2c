#include "model/chat/builtin.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/chat/loop_object.h"
#include "model/chat/methods.h"
#include "model/chat/template_failure.h"

namespace tenon::chat {
namespace {

// The parameter names of a builtin, one after the other.
class ParameterNames {
 public:
  explicit ParameterNames(std::string_view parameters) : rest_(parameters) {
    if (rest_.substr(0, 1) == "/")
      rest_.remove_prefix(std::min<size_t>(2, rest_.size()));
  }

  // Empty after the last.
  std::string_view Next() {
    const size_t space = rest_.find(' ');
    const std::string_view name = rest_.substr(0, space);
    rest_ = space == std::string_view::npos ? std::string_view() : rest_.substr(space + 1);
    return name;
  }

 private:
  std::string_view rest_;
};

// How many parameters the list names.
size_t CountParameters(std::string_view parameters) {
  ParameterNames names(parameters);
  size_t count = 0;
  while (!names.Next().empty())
    ++count;
  return count;
}

// The number of the parameter, or kMax.
size_t FindParameter(std::string_view parameters, std::string_view name) {
  ParameterNames names(parameters);
  size_t i = 0;
  for (std::string_view other = names.Next(); !other.empty(); other = names.Next(), ++i) {
    if (other == name)
      return i;
  }
  return BoundArguments::kMax;
}

}  // namespace

BoundArguments::BoundArguments(const Builtin& builtin, const Arguments& arguments)
    : raw_(arguments) {
  if (builtin.parameters == "*")
    return;
  const size_t most = CountParameters(builtin.parameters);
  if (arguments.positional.size() > most)
    Fail(fmt::format("{}() takes at most {} argument(s) ({} given)", builtin.name, most,
                     arguments.positional.size()));
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [name, value] : arguments.keywords) {
    if (builtin.parameters.substr(0, 1) == "/")
      Fail(fmt::format("{}() takes no keyword arguments", builtin.name));
    const size_t at = FindParameter(builtin.parameters, name);
    if (at == kMax)
      Fail(fmt::format("{}() got an unexpected keyword argument '{}'", builtin.name, name));
    if (Has(at))
      Fail(fmt::format("{}() got multiple values for argument '{}'", builtin.name, name));
    values_[at] = value;
  }
  ParameterNames names(builtin.parameters);
  for (size_t i = 0; i < builtin.required; ++i) {
    const std::string_view name = names.Next();
    if (!Has(i))
      Fail(fmt::format("{}() missing required argument: '{}'", builtin.name, name));
  }
}

Value CallBuiltin(Runtime& rt, const Builtin& builtin, const Value& self, const Arguments& args) {
  return builtin.call(rt, self, BoundArguments(builtin, args));
}

const Builtin* FindBuiltin(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin& builtin : table) {
    if (builtin.name == name)
      return &builtin;
  }
  return nullptr;
}

// The types that have methods; the rest have none a template may call.
const Builtin* FindMethod(const Value& self, std::string_view name) {
  switch (self.kind) {
    case Kind::kString:
      if (const Builtin* method = FindBuiltin(StringMethods(), name))
        return method;
      return FindBuiltin(StringSearchMethods(), name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return name == "copy" && !self.Is(Kind::kList) ? nullptr
                                                     : FindBuiltin(SequenceMethods(), name);
    case Kind::kDict:
      return FindBuiltin(DictMethods(), name);
    case Kind::kFloat:
      return FindBuiltin(FloatMethods(), name);
    case Kind::kLoop:
      return FindBuiltin(LoopMethods(), name);
    case Kind::kCycler:
      return FindBuiltin(CyclerMethods(), name);
    case Kind::kFunction:
      return self.function->name == "dict" ? FindBuiltin(DictTypeMethods(), name) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace tenon::chat

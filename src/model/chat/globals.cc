// The functions every template sees: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now.
#include <fmt/format.h>

#include <ctime>

#include "model/chat/argument_types.h"
#include "model/chat/builtin.h"
#include "model/chat/iteration.h"
#include "model/chat/methods.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_of.h"

namespace tenon::chat {
namespace {

constexpr int64_t kMaxRange = 100000;  // the sandbox's limit

// The number of elements; 0 where the stop lies behind the start.
uint64_t RangeSize(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop)
    return 0;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  return (distance - 1) / stride + 1;
}

// range(stop) or range(start, stop, step).
Value Range(Runtime& rt, const Value&, const BoundArguments& args) {
  const bool stop_only = !args.Has(1);
  const int64_t start = stop_only ? 0 : ToIndex(args[0]);
  const int64_t stop = ToIndex(args[stop_only ? 0 : 1]);
  const int64_t step = IntegerArgument(args, 2, 1);
  if (step == 0)
    Fail("range() arg 3 must not be zero");
  const uint64_t size = RangeSize(start, stop, step);
  if (size > static_cast<uint64_t>(kMaxRange))
    Fail(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                     kMaxRange));
  Value value;
  value.kind = Kind::kRange;
  value.range = rt.arena().New<RangeObject>(start, stop, step, static_cast<int64_t>(size));
  return value;
}

// dict(mapping or pairs, name=value).
void FillDict(Runtime& rt, Dict& dict, const Arguments& arguments) {
  if (arguments.positional.size() > 1)
    Fail(fmt::format("dict expected at most 1 argument, got {}", arguments.positional.size()));
  for (const Value& source : arguments.positional)
    AddEntries(rt, dict, source);
  for (const auto& [name, value] : arguments.keywords)
    dict.Set(rt, rt.View(name), value);
}

Value MakeDict(Runtime& rt, const Value&, const BoundArguments& args) {
  Dict* dict = rt.NewDict();
  FillDict(rt, *dict, args.raw());
  return rt.Wrap(dict);
}

Value MakeNamespace(Runtime& rt, const Value&, const BoundArguments& args) {
  Value value;
  value.kind = Kind::kNamespace;
  value.names = rt.arena().New<NamespaceObject>();
  FillDict(rt, value.names->attributes, args.raw());
  return value;
}

Value MakeCycler(Runtime& rt, const Value&, const BoundArguments& args) {
  if (args.raw().positional.empty())
    Fail("at least one item has to be provided");
  Value value;
  value.kind = Kind::kCycler;
  value.cycler = rt.arena().New<CyclerObject>(rt.List(args.raw().positional).sequence);
  return value;
}

Value MakeJoiner(Runtime& rt, const Value&, const BoundArguments& args) {
  Value value;
  value.kind = Kind::kJoiner;
  value.joiner = rt.arena().New<JoinerObject>(args.Or(0, rt.View(", ")));
  return value;
}

// The template's own error: its text is the message.
Value RaiseException(Runtime& rt, const Value&, const BoundArguments& args) {
  Fail(std::string(TextOf(rt, args[0]).text()));
}

// The time given with the budget, or now.
std::tm LocalTime(const Runtime& rt) {
  if (rt.local_time)
    return *rt.local_time;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

// strftime, bounded.
Value TimeText(Runtime& rt, const Value&, const BoundArguments& args) {
  constexpr size_t kLongest = 4096;  // bytes of a date
  // The space in front tells an empty result from one that does not fit.
  const std::string format = fmt::format(" {}", TextArgument(args, 0));
  const std::tm local = LocalTime(rt);
  std::string text(kLongest, '\0');
  const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &local);
  if (size == 0)
    Fail(fmt::format("the date format gives more than {} bytes", kLongest));
  return rt.Text(std::string_view(text).substr(1, size - 1));
}

constexpr Builtin kGlobals[] = {
    {"cycler", "*", 0, MakeCycler},
    {"dict", "*", 0, MakeDict},
    {"joiner", "sep", 0, MakeJoiner},
    {"namespace", "*", 0, MakeNamespace},
    {"raise_exception", "message", 1, RaiseException},
    {"range", "/ start stop step", 1, Range},
    {"strftime_now", "format", 1, TimeText},
};

}  // namespace

const Builtin* FindGlobal(std::string_view name) {
  return FindBuiltin(kGlobals, name);
}

}  // namespace tenon::chat

// Methods of list, tuple, range, dict, float and cycler.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/chat/argument_types.h"
#include "model/chat/attributes.h"
#include "model/chat/iteration.h"
#include "model/chat/methods.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_of.h"

namespace tenon::chat {
namespace {

Value CountItems(Runtime& rt, const Value& self, const BoundArguments& args) {
  Iteration items(rt, self);
  int64_t count = 0;
  Value item;
  while (items.Next(rt, item))
    count += Equal(rt, item, args[0]) ? 1 : 0;
  return Value::Int(count);
}

// index(value, start, stop); an error where it is absent.
Value IndexOfItem(Runtime& rt, const Value& self, const BoundArguments& args) {
  const int64_t size = LengthOf(rt, self);
  const auto clamp = [size](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t start = clamp(IntegerArgument(args, 1, 0));
  const int64_t stop = clamp(IntegerArgument(args, 2, size));
  Iteration items(rt, self);
  Value item;
  for (int64_t i = 0; i < stop && items.Next(rt, item); ++i) {
    if (i >= start && Equal(rt, item, args[0]))
      return Value::Int(i);
  }
  Fail(fmt::format("{} is not in {}", ReprOf(rt, args[0]), TypeName(self)));
}

Value Copy(Runtime&, const Value& self, const BoundArguments&) {
  return self;  // nothing can change it
}

// dict.get: None or the given default for an absent key.
Value GetOr(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value* found = self.dict->Find(rt, args[0]);
  return found != nullptr ? *found : args.Or(1, Value::None());
}

// keys, values and items: views, which can be read any number of times.
template <ViewKind kKind>
Value ViewOf(Runtime& rt, const Value& self, const BoundArguments&) {
  Value value;
  value.kind = Kind::kDictView;
  value.view = rt.arena().New<DictViewObject>(self.dict, kKind);
  return value;
}

// dict.fromkeys(keys, value).
Value FromKeys(Runtime& rt, const Value&, const BoundArguments& args) {
  Dict* dict = rt.NewDict();
  Iteration keys(rt, args[0]);
  Value key;
  while (keys.Next(rt, key))
    dict->Set(rt, key, args.Or(1, Value::None()));
  return rt.Wrap(dict);
}

// float.is_integer.
Value IsWhole(Runtime&, const Value& self, const BoundArguments&) {
  return Value::Bool(std::isfinite(self.real) && std::trunc(self.real) == self.real);
}

Value NextOfCycle(Runtime&, const Value& self, const BoundArguments&) {
  CyclerObject& cycler = *self.cycler;
  const Value current = cycler.items->items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items->size;
  return current;
}

Value ResetCycle(Runtime&, const Value& self, const BoundArguments&) {
  self.cycler->position = 0;
  return Value::None();
}

constexpr Builtin kSequenceMethods[] = {
    {"copy", "/", 0, Copy},
    {"count", "/ value", 1, CountItems},
    {"index", "/ value start stop", 1, IndexOfItem},
};
constexpr Builtin kDictMethods[] = {
    {"copy", "/", 0, Copy},
    {"fromkeys", "/ iterable value", 1, FromKeys},
    {"get", "/ key default", 1, GetOr},
    {"items", "/", 0, ViewOf<ViewKind::kItems>},
    {"keys", "/", 0, ViewOf<ViewKind::kKeys>},
    {"values", "/", 0, ViewOf<ViewKind::kValues>},
};
constexpr Builtin kDictTypeMethods[] = {{"fromkeys", "/ iterable value", 1, FromKeys}};
constexpr Builtin kFloatMethods[] = {{"is_integer", "/", 0, IsWhole}};
constexpr Builtin kCyclerMethods[] = {
    {"next", "/", 0, NextOfCycle},
    {"reset", "/", 0, ResetCycle},
};

}  // namespace

std::span<const Builtin> SequenceMethods() {
  return kSequenceMethods;
}
std::span<const Builtin> DictMethods() {
  return kDictMethods;
}
std::span<const Builtin> DictTypeMethods() {
  return kDictTypeMethods;
}
std::span<const Builtin> FloatMethods() {
  return kFloatMethods;
}
std::span<const Builtin> CyclerMethods() {
  return kCyclerMethods;
}

void AddEntries(Runtime& rt, Dict& dict, const Value& source) {
  Iteration items(rt, source);
  Value item;
  while (items.Next(rt, item)) {
    if (source.Is(Kind::kDict)) {
      dict.Set(rt, item, *source.dict->Find(rt, item));
      continue;
    }
    const std::vector<Value> pair = Collect(rt, item);
    if (pair.size() != 2)
      Fail(fmt::format("dictionary update sequence element has length {}; 2 is required",
                       pair.size()));
    dict.Set(rt, pair[0], pair[1]);
  }
}

}  // namespace tenon::chat

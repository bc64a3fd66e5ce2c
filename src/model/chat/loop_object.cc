#include "model/chat/loop_object.h"

#include <fmt/format.h>

#include "model/chat/operators.h"
#include "model/chat/runtime.h"

namespace tenon::chat {
namespace {

// Looks one element ahead.
bool HasAfter(Runtime& rt, LoopObject& loop) {
  return !loop.after.Is(Kind::kMissing) || loop.iteration.Next(rt, loop.after);
}

// Asking a loop over an iterator for its length reads the iterator to its end.
int64_t LoopLength(Runtime& rt, LoopObject& loop) {
  if (loop.length >= 0)
    return loop.length;
  loop.length = LengthOf(rt, loop.iterable);
  if (loop.length >= 0)
    return loop.length;
  std::vector<Value> rest;
  Value item;
  while (loop.iteration.Next(rt, item)) {
    rt.budget().Bytes(sizeof(Value));
    rest.push_back(item);
  }
  loop.iteration = Iteration(rt, rt.List(rest));
  loop.length =
      static_cast<int64_t>(rest.size()) + loop.index0 + 1 + (loop.after.Is(Kind::kMissing) ? 0 : 1);
  return loop.length;
}

// loop.cycle(a, b): by the number of the round.
Value Cycle(Runtime&, const Value& self, const BoundArguments& args) {
  const auto& items = args.raw().positional;
  if (items.empty())
    Fail("no items for cycling given");
  return items[static_cast<size_t>(self.loop->index0) % items.size()];
}

// loop.changed(value): whether it differs from the last call's.
Value Changed(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value values = rt.Tuple(args.raw().positional);
  Value& last = self.loop->last_changed;
  const bool changed = last.Is(Kind::kMissing) || !Equal(rt, last, values);
  if (changed)
    last = values;
  return Value::Bool(changed);
}

constexpr Builtin kMethods[] = {
    {"changed", "*", 0, Changed},
    {"cycle", "*", 0, Cycle},
};

}  // namespace

bool AdvanceLoop(Runtime& rt, LoopObject& loop) {
  Value next = loop.after;
  loop.after = Value{};
  if (next.Is(Kind::kMissing) && !loop.iteration.Next(rt, next))
    return false;
  ++loop.index0;
  loop.before = loop.current;
  loop.current = next;
  return true;
}

Value LoopAttribute(Runtime& rt, LoopObject& loop, std::string_view name) {
  if (name == "index0")
    return Value::Int(loop.index0);
  if (name == "index")
    return Value::Int(loop.index0 + 1);
  if (name == "first")
    return Value::Bool(loop.index0 == 0);
  if (name == "last")
    return Value::Bool(!HasAfter(rt, loop));
  if (name == "length")
    return Value::Int(LoopLength(rt, loop));
  if (name == "revindex")
    return Value::Int(LoopLength(rt, loop) - loop.index0);
  if (name == "revindex0")
    return Value::Int(LoopLength(rt, loop) - loop.index0 - 1);
  if (name == "previtem")
    return loop.index0 == 0 ? rt.Undefined("there is no previous item") : loop.before;
  if (name == "nextitem")
    return HasAfter(rt, loop) ? loop.after : rt.Undefined("there is no next item");
  if (name == "depth")
    return Value::Int(loop.depth0 + 1);
  if (name == "depth0")
    return Value::Int(loop.depth0);
  return {};
}

std::string DescribeLoop(Runtime& rt, LoopObject& loop) {
  return fmt::format("<LoopContext {}/{}>", loop.index0 + 1, LoopLength(rt, loop));
}

std::span<const Builtin> LoopMethods() {
  return kMethods;
}

}  // namespace tenon::chat

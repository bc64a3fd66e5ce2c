// Filters on sequences that keep the order.
#include <fmt/format.h>

#include <algorithm>

#include "model/chat/argument_types.h"
#include "model/chat/attributes.h"
#include "model/chat/deferred.h"
#include "model/chat/filters.h"
#include "model/chat/iteration.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"

namespace tenon::chat {
namespace {

// The value, or the default where it is undefined or, if asked, false.
Value Default(Runtime& rt, const Value& self, const BoundArguments& args) {
  if (IsUndefined(self) || (FlagArgument(args, 1) && !Truth(self)))
    return args.Has(0) ? args[0] : rt.View({});
  return self;
}

// len(value).
Value Length(Runtime& rt, const Value& self, const BoundArguments&) {
  if (self.Is(Kind::kLoop))
    return GetAttribute(rt, self, rt.View("length"));
  const int64_t length = LengthOf(rt, self);
  if (length < 0)
    Fail(fmt::format("object of type '{}' has no len()", TypeName(self)));
  return Value::Int(length);
}

Value First(Runtime& rt, const Value& self, const BoundArguments&) {
  // An iterator moves on by one; anything else is read from its start.
  Iteration items(rt, self);
  Value item;
  return items.Next(rt, item) ? item : rt.Undefined("No first item, sequence was empty.");
}

// Needs a sequence that can be read backwards: a generator cannot.
Value Last(Runtime& rt, const Value& self, const BoundArguments&) {
  if (IsSequence(self) && self.sequence->size > 0)
    return self.sequence->items[self.sequence->size - 1];
  const std::vector<Value> items =
      IsUndefined(self) ? std::vector<Value>{} : CollectReversed(rt, self);
  return items.empty() ? rt.Undefined("No last item, sequence was empty.") : items[0];
}

// A string gives its characters, a dict its keys.
Value List(Runtime& rt, const Value& self, const BoundArguments&) {
  return rt.List(Collect(rt, self));
}

// A string at once, anything else as an iterator.
Value Reverse(Runtime& rt, const Value& self, const BoundArguments&) {
  if (IsString(self))
    return GetSlice(rt, self, {Value::None(), Value::None(), Value::Int(-1)});
  if (self.Is(Kind::kIterator)) {
    std::vector<Value> items = Collect(rt, self);
    std::reverse(items.begin(), items.end());
    return rt.List(items);
  }
  if (!IsIterable(self))
    Fail("argument must be iterable");
  // Undefined has a length and items, as reversed() sees it, but fails when one is asked for.
  if (IsUndefined(self))
    return MakeIterator(rt, {}, "reversed");
  return MakeIterator(rt, CollectReversed(rt, self),
                      self.Is(Kind::kList) ? "list_reverseiterator" : "reversed");
}

// An attribute, never an item.
Value Attribute(Runtime& rt, const Value& self, const BoundArguments& args) {
  if (!IsString(args[0]))
    Fail(fmt::format("attribute name must be string, not '{}'", TypeName(args[0])));
  if (IsUndefined(self))
    FailUndefined(rt, self);
  const Value found = FindAttribute(rt, self, args[0].text());
  return found.Is(Kind::kMissing) ? rt.UndefinedItem(self, args[0]) : found;
}

// Of the elements or of an attribute of each.
Value Sum(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::vector<Value> path =
      args.HasSome(0) ? AttributePath(rt, args[0]) : std::vector<Value>{};
  Value total = args.Or(1, Value::Int(0));
  if (IsString(total))
    Fail("sum() can't sum strings [use ''.join(seq) instead]");
  Iteration items(rt, self);
  Value item;
  while (items.Next(rt, item))
    total = Arithmetic(rt, Operator::kAdd, total, FollowPath(rt, item, path));
  return total;
}

// items: the pairs of a dict, none of an undefined value.
std::vector<Value> ItemPairs(Runtime& rt, const Value& self, const BoundArguments&) {
  std::vector<Value> pairs;
  if (IsUndefined(self))
    return pairs;
  if (!self.Is(Kind::kDict))
    Fail("Can only get item pairs from a mapping.");
  for (size_t i = 0; i < self.dict->size; ++i)
    pairs.push_back(rt.Pair(self.dict->entries[i].key, self.dict->entries[i].value));
  return pairs;
}

// Adds the filler to a row until it has `size` elements.
void Fill(Runtime& rt, std::vector<Value>& row, const Value& filler, int64_t size) {
  const int64_t missing = size - static_cast<int64_t>(row.size());
  if (missing <= 0)
    return;
  rt.budget().Step(missing);
  rt.budget().Bytes(static_cast<size_t>(missing), sizeof(Value));
  row.insert(row.end(), static_cast<size_t>(missing), filler);
}

// batch: rows of so many elements; the last one may be filled up.
std::vector<Value> Batches(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Value size = args[0];
  std::vector<Value> batches;
  std::vector<Value> row;
  Iteration items(rt, self);
  Value item;
  while (items.Next(rt, item)) {
    if (Equal(rt, Value::Int(static_cast<int64_t>(row.size())), size)) {
      batches.push_back(rt.List(row));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (args.HasSome(1))
      Fill(rt, row, args[1], ToIndex(size));
    batches.push_back(rt.List(row));
  }
  return batches;
}

// slice: so many columns of nearly equal length; the shorter ones may be filled up.
std::vector<Value> Slices(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::vector<Value> items = Collect(rt, self);
  const int64_t count = ToIndex(args[0]);
  if (count == 0)
    Fail("integer division or modulo by zero");
  std::vector<Value> slices;
  if (count < 0)
    return slices;
  const auto size = static_cast<int64_t>(items.size());
  auto from = items.begin();
  for (int64_t i = 0; i < count; ++i) {
    rt.budget().Step();
    const bool longer = i < size % count;
    const auto to = from + size / count + (longer ? 1 : 0);
    std::vector<Value> row(from, to);
    if (args.HasSome(1) && !longer)
      row.push_back(args[1]);
    slices.push_back(rt.List(row));
    from = to;
  }
  return slices;
}

// A filter that returns a generator over what kCompute returns.
template <DeferredIterator::Compute kCompute>
Value Deferred(Runtime& rt, const Value& self, const BoundArguments& args);

constexpr Builtin kFilters[] = {
    {"attr", "name", 1, Attribute},
    {"batch", "linecount fill_with", 1, Deferred<Batches>},
    {"count", "", 0, Length},
    {"d", "default_value boolean", 0, Default},
    {"default", "default_value boolean", 0, Default},
    {"first", "", 0, First},
    {"items", "", 0, Deferred<ItemPairs>},
    {"last", "", 0, Last},
    {"length", "", 0, Length},
    {"list", "", 0, List},
    {"reverse", "", 0, Reverse},
    {"slice", "slices fill_with", 1, Deferred<Slices>},
    {"sum", "attribute start", 0, Sum},
};

template <DeferredIterator::Compute kCompute>
Value Deferred(Runtime& rt, const Value& self, const BoundArguments& args) {
  const auto* builtin = std::find_if(std::begin(kFilters), std::end(kFilters), [](const auto& row) {
    return row.call == Deferred<kCompute>;
  });
  return rt.Wrap(rt.arena().New<DeferredIterator>(kCompute, builtin, self, &rt.Keep(args.raw())));
}

}  // namespace

std::span<const Builtin> SequenceFilters() {
  return kFilters;
}

}  // namespace tenon::chat

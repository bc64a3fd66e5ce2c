// Filters that compare elements: sort, unique, groupby, min, max, dictsort.
#include <fmt/format.h>

#include "model/chat/argument_types.h"
#include "model/chat/attributes.h"
#include "model/chat/filters.h"
#include "model/chat/iteration.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/sorting.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

enum class Letters : uint8_t { kAsTheyAre, kLowered };

// Texts compare without regard to case unless asked for.
Letters LettersOf(const BoundArguments& args, size_t case_sensitive) {
  return FlagArgument(args, case_sensitive) ? Letters::kAsTheyAre : Letters::kLowered;
}

// What an element is compared by: an attribute of it, or itself.
class Key {
 public:
  Key(Runtime& rt, const Value& attribute, Letters letters)
      : rt_(rt), path_(PathOf(rt, attribute)), letters_(letters) {}

  void SetDefault(const Value& value) { default_ = value; }

  Value Raw(const Value& item) const {
    Value value = item;
    for (const Value& part : path_) {
      value = GetItem(rt_, value, part);
      if (IsUndefined(value) && !default_.Is(Kind::kMissing))
        value = default_;
    }
    return value;
  }

  Value operator()(const Value& item) const {
    const Value value = Raw(item);
    if (letters_ == Letters::kAsTheyAre || !IsString(value))
      return value;
    rt_.budget().Convert(value.string->bytes);
    std::string lower = ToLower(value.text());
    rt_.budget().Bytes(lower.size());
    return rt_.Adopt(std::move(lower));
  }

 private:
  static std::vector<Value> PathOf(Runtime& rt, const Value& attribute) {
    return attribute.Is(Kind::kMissing) ? std::vector<Value>{} : AttributePath(rt, attribute);
  }

  Runtime& rt_;
  std::vector<Value> path_;
  Letters letters_;
  Value default_;
};

struct Keyed {
  Value key;
  Value item;
};

enum class Direction : uint8_t { kAscending, kDescending };

void SortByKey(Runtime& rt, std::vector<Keyed>& items, Direction direction) {
  StableSort(items, [&](const Keyed& a, const Keyed& b) {
    rt.budget().Step();
    return direction == Direction::kAscending ? Ordered(rt, Operator::kLess, a.key, b.key)
                                              : Ordered(rt, Operator::kLess, b.key, a.key);
  });
}

Direction DirectionOf(const BoundArguments& args, size_t reverse) {
  return FlagArgument(args, reverse) ? Direction::kDescending : Direction::kAscending;
}

// The elements without their keys.
Value ItemsOf(Runtime& rt, const std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  for (const Keyed& entry : keyed)
    items.push_back(entry.item);
  return rt.List(items);
}

// The keys of an attribute list such as "age,name".
std::vector<Key> SortKeys(Runtime& rt, const Value& attribute, Letters letters) {
  std::vector<Key> keys;
  if (!IsString(attribute)) {
    keys.emplace_back(rt, attribute, letters);
    return keys;
  }
  std::string_view rest = attribute.text();
  while (true) {
    const size_t comma = rest.find(',');
    keys.emplace_back(rt, rt.View(rest.substr(0, comma)), letters);
    if (comma == std::string_view::npos)
      return keys;
    rest = rest.substr(comma + 1);
  }
}

// By all keys in turn; equal elements keep their order, in a descending sort too.
Value Sort(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::vector<Key> keys = SortKeys(rt, args[2], LettersOf(args, 1));
  std::vector<Keyed> items;
  for (const Value& item : Collect(rt, self)) {
    std::vector<Value> parts;
    for (const Key& key : keys)
      parts.push_back(key(item));
    items.push_back({rt.List(parts), item});
  }
  SortByKey(rt, items, DirectionOf(args, 0));
  return ItemsOf(rt, items);
}

// The pairs of a dict by key or value.
Value DictSort(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view by = args.Has(1) ? TextArgument(args, 1) : "key";
  if (by != "key" && by != "value")
    Fail("You can only sort by either \"key\" or \"value\"");
  if (IsUndefined(self))
    FailUndefined(rt, self);
  if (!self.Is(Kind::kDict))
    Fail(fmt::format("'{}' object has no attribute 'items'", TypeName(self)));
  const Key key(rt, Value{}, LettersOf(args, 0));
  std::vector<Keyed> items;
  for (size_t i = 0; i < self.dict->size; ++i) {
    const DictEntry& entry = self.dict->entries[i];
    items.push_back({key(by == "key" ? entry.key : entry.value), rt.Pair(entry.key, entry.value)});
  }
  SortByKey(rt, items, DirectionOf(args, 2));
  return ItemsOf(rt, items);
}

// min and max: the first of equal elements.
template <Operator kBetter>
Value Extreme(Runtime& rt, const Value& self, const BoundArguments& args) {
  const Key key(rt, args[1], LettersOf(args, 0));
  Iteration items(rt, self);
  Value best;
  if (!items.Next(rt, best))
    return rt.Undefined("No aggregated item, sequence was empty.");
  Value best_key = key(best);
  Value item;
  while (items.Next(rt, item)) {
    const Value item_key = key(item);
    if (!Ordered(rt, kBetter, item_key, best_key))
      continue;
    best = item;
    best_key = item_key;
  }
  return best;
}

// Sorted by the attribute, then one pair of (value, elements) for each run of equal ones.
Value GroupBy(Runtime& rt, const Value& self, const BoundArguments& args) {
  Key key(rt, args[0], LettersOf(args, 2));
  if (args.HasSome(1))
    key.SetDefault(args[1]);
  std::vector<Keyed> items;
  for (const Value& item : Collect(rt, self))
    items.push_back({key(item), item});
  SortByKey(rt, items, Direction::kAscending);
  std::vector<Value> groups;
  for (size_t start = 0; start < items.size();) {
    std::vector<Value> members;
    size_t end = start;
    for (; end < items.size() && Equal(rt, items[end].key, items[start].key); ++end)
      members.push_back(items[end].item);
    if (end == start)  // a key unlike itself: NaN
      members.push_back(items[end++].item);
    const Value pair[] = {key.Raw(items[start].item), rt.List(members)};
    Value group = rt.Tuple(pair);
    group.sequence = rt.arena().New<SequenceObject>(group.sequence->items, size_t{2}, true);
    groups.push_back(group);
    start = end;
  }
  return rt.List(groups);
}

// unique: lazily, since what follows may stop before an element that has no hash.
class UniqueIterator final : public IteratorObject {
 public:
  UniqueIterator(const Value& input, const Value& attribute, Letters letters)
      : IteratorObject("generator"), input_(input), attribute_(attribute), letters_(letters) {}

  bool Next(Runtime& rt, Value& out) override {
    if (seen_ == nullptr) {
      iteration_ = Iteration(rt, input_);
      seen_ = rt.NewDict();
    }
    const Key key(rt, attribute_, letters_);
    while (iteration_.Next(rt, out)) {
      const Value item_key = key(out);
      if (seen_->Find(rt, item_key) != nullptr)
        continue;
      seen_->Set(rt, item_key, Value::None());
      return true;
    }
    return false;
  }

 private:
  Value input_;
  Value attribute_;
  Letters letters_;
  Iteration iteration_;
  Dict* seen_ = nullptr;
};

Value Unique(Runtime& rt, const Value& self, const BoundArguments& args) {
  return rt.Wrap(rt.arena().New<UniqueIterator>(self, args[1], LettersOf(args, 0)));
}

constexpr Builtin kFilters[] = {
    {"dictsort", "case_sensitive by reverse", 0, DictSort},
    {"groupby", "attribute default case_sensitive", 1, GroupBy},
    {"max", "case_sensitive attribute", 0, Extreme<Operator::kGreater>},
    {"min", "case_sensitive attribute", 0, Extreme<Operator::kLess>},
    {"sort", "reverse case_sensitive attribute", 0, Sort},
    {"unique", "case_sensitive attribute", 0, Unique},
};

}  // namespace

std::span<const Builtin> OrderFilters() {
  return kFilters;
}

}  // namespace tenon::chat

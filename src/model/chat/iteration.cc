#include "model/chat/iteration.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/chat/operators.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// An iterator over an array in the arena.
class ItemsIterator final : public IteratorObject {
 public:
  ItemsIterator(std::string_view type_name, const Value* items, size_t size)
      : IteratorObject(type_name), items_(items), size_(size) {}

  bool Next(Runtime&, Value& out) override {
    if (position_ == size_)
      return false;
    out = items_[position_++];
    return true;
  }

 private:
  const Value* items_;
  size_t size_;
  size_t position_ = 0;
};

}  // namespace

bool IsIterable(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

Iteration::Iteration(Runtime&, const Value& source) : source_(source) {
  if (!IsIterable(source))
    Fail(fmt::format("'{}' object is not iterable", TypeName(source)));
}

// One character of a string, pointed to where it stands.
bool Iteration::NextCharacter(Runtime& rt, Value& out) {
  const std::string_view text = source_.text();
  if (position_ == text.size())
    return false;
  const size_t start = position_;
  DecodeAt(text, position_);
  out = rt.View(text.substr(start, position_ - start));
  return true;
}

// A dict gives its keys.
bool Iteration::NextOfView(Runtime& rt, Value& out) {
  const bool is_view = source_.Is(Kind::kDictView);
  const Dict* dict = is_view ? source_.view->dict : source_.dict;
  const ViewKind kind = is_view ? source_.view->kind : ViewKind::kKeys;
  if (position_ == dict->size)
    return false;
  const DictEntry& entry = dict->entries[position_++];
  out = kind == ViewKind::kKeys     ? entry.key
        : kind == ViewKind::kValues ? entry.value
                                    : rt.Pair(entry.key, entry.value);
  return true;
}

bool Iteration::Next(Runtime& rt, Value& out) {
  rt.budget().Step();
  switch (source_.kind) {
    case Kind::kString:
      return NextCharacter(rt, out);
    case Kind::kList:
    case Kind::kTuple:
      if (position_ == source_.sequence->size)
        return false;
      out = source_.sequence->items[position_++];
      return true;
    case Kind::kDict:
    case Kind::kDictView:
      return NextOfView(rt, out);
    case Kind::kRange:
      if (static_cast<int64_t>(position_) >= source_.range->size)
        return false;
      out = Value::Int(source_.range->At(static_cast<int64_t>(position_++)));
      return true;
    case Kind::kIterator: {
      const DepthGuard guard(rt);
      Value next;  // a filter leaves what it rejected behind
      const bool found = source_.iterator->Next(rt, next);
      if (found)
        out = next;
      return found;
    }
    default:
      return false;
  }
}

int64_t LengthOf(Runtime& rt, const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CharacterCount(rt, value);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.sequence->size);
    case Kind::kDict:
      return static_cast<int64_t>(value.dict->size);
    case Kind::kDictView:
      return static_cast<int64_t>(value.view->dict->size);
    case Kind::kRange:
      return value.range->size;
    default:
      return -1;
  }
}

std::vector<Value> Collect(Runtime& rt, const Value& source) {
  std::vector<Value> items;
  Iteration iteration(rt, source);
  Value item;
  while (iteration.Next(rt, item)) {
    rt.budget().Bytes(sizeof(Value));
    items.push_back(item);
  }
  return items;
}

std::vector<Value> CollectReversed(Runtime& rt, const Value& source) {
  if (LengthOf(rt, source) < 0 || IsUndefined(source))
    Fail(fmt::format("'{}' object is not reversible", TypeName(source)));
  std::vector<Value> items = Collect(rt, source);
  std::reverse(items.begin(), items.end());
  return items;
}

Value MakeIterator(Runtime& rt, std::span<const Value> items, std::string_view type_name) {
  Value* copy = rt.arena().NewArray<Value>(items.size());
  std::copy(items.begin(), items.end(), copy);
  return rt.Wrap(rt.arena().New<ItemsIterator>(type_name, copy, items.size()));
}

}  // namespace tenon::chat

#include "model/chat/attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/chat/ast.h"
#include "model/chat/iteration.h"
#include "model/chat/loop_object.h"
#include "model/chat/operators.h"
#include "model/chat/text_of.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// Of every Python object, and of its functions.
constexpr std::string_view kObjectInternals[] = {
    "__class__",  "__delattr__", "__dir__",           "__doc__",  "__eq__",
    "__format__", "__ge__",      "__getattribute__",  "__gt__",   "__hash__",
    "__init__",   "__le__",      "__init_subclass__", "__lt__",   "__ne__",
    "__new__",    "__reduce__",  "__reduce_ex__",     "__repr__", "__setattr__",
    "__sizeof__", "__str__",     "__subclasshook__",
};
constexpr std::string_view kFunctionInternals[] = {"__call__", "__code__",    "__dict__",
                                                   "__func__", "__globals__", "__module__",
                                                   "__name__", "__self__"};
constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

// Whether the name is in the list.
bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What Python would find but the sandbox does not hand out.
bool IsUnsafe(const Value& object, std::string_view name) {
  if (name.substr(0, 2) == "__" && IsOneOf(name, kObjectInternals))
    return true;
  const bool function =
      object.Is(Kind::kFunction) || object.Is(Kind::kMethod) || object.Is(Kind::kMacro);
  if (function && IsOneOf(name, kFunctionInternals))
    return true;
  return (object.Is(Kind::kList) && IsOneOf(name, kListMutators)) ||
         (object.Is(Kind::kDict) && IsOneOf(name, kDictMutators));
}

// An undefined value that tells why, once it is used.
Value Unsafe(Runtime& rt, const Value& object, std::string_view name) {
  TextBuilder quoted(rt);
  WriteQuoted(quoted, name);
  return rt.Undefined(fmt::format("access to attribute {} of '{}' object is unsafe.", quoted.text(),
                                  TypeName(object)));
}

// What jinja2's Macro objects show.
Value MacroAttribute(Runtime& rt, const MacroNode& macro, std::string_view name) {
  if (name == "name")
    return macro.name.empty() ? Value::None() : rt.View(macro.name);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const Parameter& parameter : macro.parameters)
      names.push_back(rt.View(parameter.name));
    return rt.Tuple(names);
  }
  if (name == "catch_kwargs")
    return Value::Bool(macro.kwargs_slot >= 0);
  if (name == "catch_varargs")
    return Value::Bool(macro.varargs_slot >= 0);
  return name == "caller" ? Value::Bool(macro.caller_slot >= 0) : Value{};
}

// Attributes that are not methods.
Value DataAttribute(Runtime& rt, const Value& object, std::string_view name) {
  switch (object.kind) {
    case Kind::kLoop:
      return LoopAttribute(rt, *object.loop, name);
    case Kind::kMacro:
      return MacroAttribute(rt, *object.macro->node, name);
    case Kind::kCycler:
      return name == "current" ? object.cycler->items->items[object.cycler->position] : Value{};
    case Kind::kTuple:
      if (object.sequence->group && (name == "grouper" || name == "list"))
        return object.sequence->items[name == "grouper" ? 0 : 1];
      return {};
    default:
      return {};
  }
}

// An index counted from the end where it is negative; -1 if it is out of range.
int64_t ClampIndex(const Value& key, int64_t size) {
  int64_t index = ToIndex(key);
  index += index < 0 ? size : 0;
  return index >= 0 && index < size ? index : -1;
}

bool IsIndex(const Value& key) {
  return key.Is(Kind::kInt) || key.Is(Kind::kBool);
}

// One character of a string; kMissing beyond its ends.
Value CharacterAt(Runtime& rt, const Value& object, const Value& key) {
  const int64_t size = CharacterCount(rt, object);
  const int64_t index = ClampIndex(key, size);
  if (index < 0)
    return {};
  const std::string_view text = object.text();
  if (size == static_cast<int64_t>(text.size()))
    return rt.View(text.substr(static_cast<size_t>(index), 1));
  rt.budget().Decode(text.size());
  const size_t start = ByteOffset(text, index);
  size_t end = start;
  DecodeAt(text, end);
  return rt.View(text.substr(start, end - start));
}

// object[key] as Python has it; kMissing for a TypeError or LookupError.
Value FindItem(Runtime& rt, const Value& object, const Value& key) {
  switch (object.kind) {
    case Kind::kUndefined:
      FailUndefined(rt, object);
    case Kind::kDict: {
      if (!IsHashable(rt, key))
        return {};
      const Value* found = object.dict->Find(rt, key);
      return found != nullptr ? *found : Value{};
    }
    case Kind::kString:
      return IsIndex(key) ? CharacterAt(rt, object, key) : Value{};
    case Kind::kList:
    case Kind::kTuple: {
      const auto size = static_cast<int64_t>(object.sequence->size);
      const int64_t index = IsIndex(key) ? ClampIndex(key, size) : -1;
      return index < 0 ? Value{} : object.sequence->items[index];
    }
    case Kind::kRange: {
      const int64_t index = IsIndex(key) ? ClampIndex(key, object.range->size) : -1;
      return index < 0 ? Value{} : Value::Int(object.range->At(index));
    }
    default:
      return {};
  }
}

// A slice resolved against a length: `count` elements from `start` on.
struct Slice {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// A bound of a slice as an integer.
int64_t BoundOf(const Value& value) {
  if (!IsIndex(value))
    Fail("slice indices must be integers or None or have an __index__ method");
  return ToIndex(value);
}

// Python's slice.indices.
Slice Resolve(const SliceBounds& bounds, int64_t size) {
  Slice slice;
  slice.step = bounds.step.Is(Kind::kNone) ? 1 : BoundOf(bounds.step);
  if (slice.step == 0)
    Fail("slice step cannot be zero");
  slice.step = std::max(slice.step, -INT64_MAX);
  const bool forward = slice.step > 0;
  const int64_t lowest = forward ? 0 : -1;
  const int64_t highest = forward ? size : size - 1;
  const auto clamp = [&](const Value& bound, int64_t fallback) {
    if (bound.Is(Kind::kNone))
      return fallback;
    int64_t index = BoundOf(bound);
    index += index < 0 ? size : 0;
    return std::clamp(index, lowest, highest);
  };
  slice.start = clamp(bounds.start, forward ? lowest : highest);
  slice.stop = clamp(bounds.stop, forward ? highest : lowest);
  if (forward && slice.start < slice.stop)
    slice.count = (slice.stop - slice.start - 1) / slice.step + 1;
  else if (!forward && slice.start > slice.stop)
    slice.count = (slice.start - slice.stop - 1) / -slice.step + 1;
  return slice;
}

Value SliceText(Runtime& rt, const Value& object, const Slice& slice) {
  const std::string_view text = object.text();
  if (slice.count == 0)
    return rt.View({});
  const bool ascii = CharacterCount(rt, object) == static_cast<int64_t>(text.size());
  if (!ascii)
    rt.budget().Decode(text.size());
  if (slice.step == 1) {
    const auto offset = [&](int64_t i) {
      return ascii ? static_cast<size_t>(i) : ByteOffset(text, i);
    };
    const size_t start = offset(slice.start);
    return rt.View(text.substr(start, offset(slice.start + slice.count) - start));
  }
  std::vector<size_t> starts;
  rt.budget().Step(CharacterCount(rt, object));
  for (size_t pos = 0; pos < text.size(); DecodeAt(text, pos))
    starts.push_back(pos);
  starts.push_back(text.size());
  TextBuilder out(rt);
  for (int64_t i = 0; i < slice.count; ++i) {
    const auto at = static_cast<size_t>(slice.start + i * slice.step);
    out.Append(text.substr(starts[at], starts[at + 1] - starts[at]));
  }
  return out.Finish();
}

Value SliceSequence(Runtime& rt, const Value& object, const Slice& slice) {
  const Value* items = object.sequence->items;
  const auto count = static_cast<size_t>(slice.count);
  if (slice.step == 1)
    return rt.Sequence(object.kind, items + (count == 0 ? 0 : slice.start), count);
  rt.budget().Step(slice.count);
  Value* copy = rt.arena().NewArray<Value>(count);
  for (int64_t i = 0; i < slice.count; ++i)
    copy[i] = items[slice.start + i * slice.step];
  return rt.Sequence(object.kind, copy, count);
}

Value SliceRange(Runtime& rt, const RangeObject& range, const Slice& slice) {
  Value value;
  value.kind = Kind::kRange;
  // The step and the ends may leave 64 bits where no element does; they are only printed then.
  int64_t step = 0;
  if (__builtin_mul_overflow(range.step, slice.step, &step))
    step = (range.step > 0) == (slice.step > 0) ? INT64_MAX : -INT64_MAX;
  const auto end = [&range](int64_t index) {
    int64_t value_there = 0;
    if (__builtin_mul_overflow(index, range.step, &value_there) ||
        __builtin_add_overflow(range.start, value_there, &value_there))
      return (index > 0) == (range.step > 0) ? INT64_MAX : INT64_MIN;
    return value_there;
  };
  const int64_t start = end(slice.start);
  const int64_t stop = end(slice.stop);
  value.range = rt.arena().New<RangeObject>(start, stop, step, slice.count);
  return value;
}

}  // namespace

Value FindAttribute(Runtime& rt, const Value& object, std::string_view name) {
  if (object.Is(Kind::kNamespace)) {
    const Value* found = object.names->attributes.Find(rt, name);
    if (found == nullptr && name != "__class__")
      return {};
    return name.substr(0, 1) == "_" ? Unsafe(rt, object, name) : *found;
  }
  if (IsUnsafe(object, name))
    return Unsafe(rt, object, name);
  if (const Value value = DataAttribute(rt, object, name); !value.Is(Kind::kMissing))
    return value;
  const Builtin* method = FindMethod(object, name);
  if (method == nullptr)
    return {};
  Value value;
  value.kind = Kind::kMethod;
  value.method = rt.arena().New<MethodObject>(object, method);
  return value;
}

Value GetAttribute(Runtime& rt, const Value& object, const Value& name) {
  const Value attribute = FindAttribute(rt, object, name.text());
  if (!attribute.Is(Kind::kMissing))
    return attribute;
  const Value item = FindItem(rt, object, name);
  return item.Is(Kind::kMissing) ? rt.UndefinedItem(object, name) : item;
}

Value GetItem(Runtime& rt, const Value& object, const Value& key) {
  const Value item = FindItem(rt, object, key);
  if (!item.Is(Kind::kMissing))
    return item;
  const Value attribute = IsString(key) ? FindAttribute(rt, object, key.text()) : Value{};
  return attribute.Is(Kind::kMissing) ? rt.UndefinedItem(object, key) : attribute;
}

Value GetSlice(Runtime& rt, const Value& object, const SliceBounds& bounds) {
  switch (object.kind) {
    case Kind::kUndefined:
      FailUndefined(rt, object);
    case Kind::kString:
      return SliceText(rt, object, Resolve(bounds, CharacterCount(rt, object)));
    case Kind::kList:
    case Kind::kTuple:
      return SliceSequence(rt, object,
                           Resolve(bounds, static_cast<int64_t>(object.sequence->size)));
    case Kind::kRange:
      return SliceRange(rt, *object.range, Resolve(bounds, object.range->size));
    case Kind::kDict:
      Fail("unhashable type: 'slice'");
    default:
      Fail(fmt::format("'{}' object is not subscriptable", TypeName(object)));
  }
}

Value SubText(Runtime& rt, const Value& text, const Value& start, const Value& stop) {
  const auto bound = [](const Value& value) {
    return value.Is(Kind::kMissing) ? Value::None() : value;
  };
  return GetSlice(rt, text, {bound(start), bound(stop), Value::None()});
}

std::vector<Value> AttributePath(Runtime& rt, const Value& attribute) {
  if (!IsString(attribute))
    return attribute.Is(Kind::kNone) ? std::vector<Value>{} : std::vector<Value>{attribute};
  std::vector<Value> path;
  std::string_view rest = attribute.text();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool digits = !part.empty() && part.size() <= 18 &&  // fits 64 bits
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    int64_t number = 0;
    for (const char c : digits ? part : std::string_view())
      number = number * 10 + (c - '0');
    path.push_back(digits ? Value::Int(number) : rt.View(part));
    if (dot == std::string_view::npos)
      return path;
    rest = rest.substr(dot + 1);
  }
}

Value FollowPath(Runtime& rt, Value object, std::span<const Value> path) {
  for (const Value& part : path)
    object = GetItem(rt, object, part);
  return object;
}

}  // namespace tenon::chat

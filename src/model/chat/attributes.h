// Looking into values: object.name, object[key] and object[start:stop:step].
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/chat/builtin.h"
#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

// object.name: an attribute first, then an item. `name` is a string. Undefined if there is neither;
// what Python has but the sandbox refuses is an undefined value that says so.
Value GetAttribute(Runtime& rt, const Value& object, const Value& name);
// object[key]: an item first, then an attribute.
Value GetItem(Runtime& rt, const Value& object, const Value& key);
// An attribute only; kMissing if there is none.
Value FindAttribute(Runtime& rt, const Value& object, std::string_view name);

struct SliceBounds {
  Value start;  // an int, or None
  Value stop;
  Value step;
};
Value GetSlice(Runtime& rt, const Value& object, const SliceBounds& bounds);
// The start:stop part of a string, as the optional arguments of str.find and its like.
Value SubText(Runtime& rt, const Value& text, const Value& start, const Value& stop);

// A path such as "a.b.0", as the attribute= of filters takes: parts of digits are integers.
std::vector<Value> AttributePath(Runtime& rt, const Value& attribute);
Value FollowPath(Runtime& rt, Value object, std::span<const Value> path);

}  // namespace tenon::chat

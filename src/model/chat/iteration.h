// Iteration over values, as Python's iter() and next().
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

// A one-shot, lazy sequence: what filters such as map and select return. Lives in the arena, so a
// subclass must be trivially destructible.
class IteratorObject {
 public:
  explicit IteratorObject(std::string_view type_name) : type_name_(type_name) {}

  // False at the end. Implementations nest: each guards the depth with Advance.
  virtual bool Next(Runtime& rt, Value& out) = 0;
  std::string_view type_name() const { return type_name_; }

 protected:
  ~IteratorObject() = default;

 private:
  std::string_view type_name_;
};

// A pass over any iterable value. Every element is a step of the budget.
class Iteration {
 public:
  Iteration() = default;
  // Fails with Python's words for what cannot be iterated.
  Iteration(Runtime& rt, const Value& source);

  // False at the end, where `out` keeps its value.
  bool Next(Runtime& rt, Value& out);

 private:
  bool NextOfView(Runtime& rt, Value& out);
  bool NextCharacter(Runtime& rt, Value& out);

  Value source_;
  size_t position_ = 0;
};

bool IsIterable(const Value& value);
// The number of elements len() gives, or -1 for what has none.
int64_t LengthOf(Runtime& rt, const Value& value);
// All elements. Fails as Iteration does.
std::vector<Value> Collect(Runtime& rt, const Value& source);
// The elements of what reversed() takes: a string, list, tuple, dict, view or range.
std::vector<Value> CollectReversed(Runtime& rt, const Value& source);
// An iterator over items that are already there.
Value MakeIterator(Runtime& rt, std::span<const Value> items, std::string_view type_name);

}  // namespace tenon::chat

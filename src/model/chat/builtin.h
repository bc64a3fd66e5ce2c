// Builtin: one filter, test, method or global function, and how its arguments are bound.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat/value.h"

namespace tenon::chat {

class Runtime;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> keywords;
};

// The arguments of one call by parameter; kMissing where none was given.
class BoundArguments {
 public:
  static constexpr size_t kMax = 6;

  // Fails, naming the function, for unknown, doubled, missing or surplus arguments.
  BoundArguments(const Builtin& builtin, const Arguments& arguments);

  const Value& operator[](size_t i) const { return values_[i]; }
  bool Has(size_t i) const { return !values_[i].Is(Kind::kMissing); }
  // Given and not None.
  bool HasSome(size_t i) const { return Has(i) && !values_[i].Is(Kind::kNone); }
  Value Or(size_t i, const Value& fallback) const { return Has(i) ? values_[i] : fallback; }
  // The arguments as they were written.
  const Arguments& raw() const { return raw_; }

 private:
  const Arguments& raw_;
  std::array<Value, kMax> values_;
};

struct Builtin {
  std::string_view name;
  // The parameter names after the input, parted by spaces. "/" first: none may be given by name.
  // "*": any arguments, taken from raw().
  std::string_view parameters;
  size_t required = 0;
  Value (*call)(Runtime& rt, const Value& self, const BoundArguments& args) = nullptr;
};

Value CallBuiltin(Runtime& rt, const Builtin& builtin, const Value& self, const Arguments& args);

// The entry of that name, or null.
const Builtin* FindBuiltin(std::span<const Builtin> table, std::string_view name);

// By name, or null.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindGlobal(std::string_view name);
// A method of the value's type.
const Builtin* FindMethod(const Value& self, std::string_view name);

}  // namespace tenon::chat

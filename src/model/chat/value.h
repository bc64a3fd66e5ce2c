// Value: what a template computes with, after Python's object model.
//
// A Value is a kind and a word; larger things live in the rendering's arena (or, for literals, in
// the parsed template) and are pointed to. Lists, tuples and dicts never change once they are
// built, as in jinja2's immutable sandbox; namespaces, loops, iterators, cyclers and joiners do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tenon::chat {

enum class Kind : uint8_t {
  kMissing,  // no value: an unset variable or argument; never seen by a template
  kUndefined,
  kNone,
  kBool,
  kInt,
  kUint,  // an integer above INT64_MAX, as JSON may hold: printed and compared, not computed with
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
  kCycler,
  kJoiner,
};

struct Value;
struct Dict;
struct MacroNode;
struct Activation;
struct LoopObject;
struct Builtin;
class IteratorObject;

struct StringObject {
  const char* data = nullptr;
  size_t bytes = 0;
  mutable int64_t length = -1;  // in code points; -1: not yet counted
  bool markup = false;          // came from `safe` or `escape`: `+` escapes what joins it

  std::string_view view() const { return {data, bytes}; }
};

struct SequenceObject {
  const Value* items = nullptr;
  size_t size = 0;
  bool group = false;  // a pair of `groupby`: has .grouper and .list
};

struct RangeObject {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t size = 0;

  int64_t At(int64_t i) const { return start + i * step; }
};

enum class ViewKind : uint8_t { kKeys, kValues, kItems };

struct DictViewObject {
  const Dict* dict = nullptr;
  ViewKind kind = ViewKind::kKeys;
};

struct UndefinedObject;
struct NamespaceObject;
struct MacroObject;
struct MethodObject;
struct CyclerObject;
struct JoinerObject;

struct Value {
  Kind kind = Kind::kMissing;
  union {
    int64_t integer = 0;
    bool boolean;
    uint64_t unsigned_integer;
    double real;
    const StringObject* string;
    const SequenceObject* sequence;
    const Dict* dict;
    const DictViewObject* view;
    const RangeObject* range;
    const UndefinedObject* undefined;
    IteratorObject* iterator;
    NamespaceObject* names;
    LoopObject* loop;
    const MacroObject* macro;
    const Builtin* function;
    const MethodObject* method;
    CyclerObject* cycler;
    JoinerObject* joiner;
  };

  bool Is(Kind other) const { return kind == other; }
  std::string_view text() const { return string->view(); }  // REQUIRES: kString
  const Value* begin() const { return sequence->items; }    // REQUIRES: kList or kTuple
  const Value* end() const { return sequence->items + sequence->size; }

  static Value None();
  static Value Bool(bool boolean);
  static Value Int(int64_t integer);
  static Value Float(double real);
};

inline Value Value::None() {
  Value value;
  value.kind = Kind::kNone;
  return value;
}
inline Value Value::Bool(bool boolean) {
  Value value;
  value.kind = Kind::kBool;
  value.boolean = boolean;
  return value;
}
inline Value Value::Int(int64_t integer) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = integer;
  return value;
}
inline Value Value::Float(double real) {
  Value value;
  value.kind = Kind::kFloat;
  value.real = real;
  return value;
}

struct UndefinedObject {
  std::string_view hint;  // the whole message, or empty
  Value owner = {};       // what was looked into; kMissing for a variable
  Value name = {};        // the key or name that is absent
};

struct MethodObject {
  Value receiver;
  const Builtin* method = nullptr;
};

struct MacroObject {
  const MacroNode* node = nullptr;
  Activation* closure = nullptr;  // the activation it was defined in
};

struct CyclerObject {
  const SequenceObject* items = nullptr;
  size_t position = 0;
};

struct JoinerObject {
  Value separator;
  bool used = false;
};

inline bool IsString(const Value& value) {
  return value.kind == Kind::kString;
}
inline bool IsUndefined(const Value& value) {
  return value.kind == Kind::kUndefined;
}
inline bool IsSequence(const Value& value) {
  return value.kind == Kind::kList || value.kind == Kind::kTuple;
}
// bool, int and float: Python's numbers.
inline bool IsNumber(const Value& value) {
  return value.kind >= Kind::kBool && value.kind <= Kind::kFloat;
}
inline bool IsInteger(const Value& value) {
  return value.kind >= Kind::kBool && value.kind <= Kind::kUint;
}

// Python's name of the value's type: "str", "NoneType", "dict", ...
std::string_view TypeName(const Value& value);

}  // namespace tenon::chat

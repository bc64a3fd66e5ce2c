#include "model/chat/runtime.h"

#include <algorithm>

namespace tenon::chat {

Value Runtime::View(std::string_view text) {
  Value value;
  value.kind = Kind::kString;
  value.string = arena_.New<StringObject>(text.data(), text.size());
  return value;
}

Value Runtime::Text(std::string_view text) {
  char* copy = arena_.NewArray<char>(text.size());
  std::copy(text.begin(), text.end(), copy);
  return View({copy, text.size()});
}

Value Runtime::Markup(const Value& text) {
  Value value = View(text.text());
  StringObject* object = arena_.New<StringObject>(*value.string);
  object->markup = true;
  value.string = object;
  return value;
}

Value Runtime::Sequence(Kind kind, const Value* items, size_t size) {
  Value value;
  value.kind = kind;
  value.sequence = arena_.New<SequenceObject>(items, size);
  return value;
}

Value Runtime::Sequence(Kind kind, std::span<const Value> items) {
  Value* copy = arena_.NewArray<Value>(items.size());
  std::copy(items.begin(), items.end(), copy);
  return Sequence(kind, copy, items.size());
}

Value Runtime::Pair(const Value& first, const Value& second) {
  const Value items[] = {first, second};
  return Tuple(items);
}

Value Runtime::Wrap(const Dict* dict) {
  Value value;
  value.kind = Kind::kDict;
  value.dict = dict;
  return value;
}

Value Runtime::Wrap(IteratorObject* iterator) {
  Value value;
  value.kind = Kind::kIterator;
  value.iterator = iterator;
  return value;
}

Value Runtime::Wrap(const Builtin* function) {
  Value value;
  value.kind = Kind::kFunction;
  value.function = function;
  return value;
}

const Arguments& Runtime::Keep(Arguments arguments) {
  budget_.Bytes(sizeof(Arguments));
  kept_.push_back(std::move(arguments));
  return kept_.back();
}

Value Runtime::Undefined(std::string_view hint) {
  Value value;
  value.kind = Kind::kUndefined;
  value.undefined = arena_.New<UndefinedObject>(Text(hint).text());
  return value;
}

Value Runtime::UndefinedName(std::string_view name) {
  return UndefinedItem(Value{}, View(name));
}

Value Runtime::UndefinedItem(const Value& owner, const Value& name) {
  Value value;
  value.kind = Kind::kUndefined;
  value.undefined = arena_.New<UndefinedObject>(std::string_view(), owner, name);
  return value;
}

TextBuilder& TextBuilder::Repeat(int64_t count, std::string_view text) {
  if (count <= 0 || text.empty())
    return *this;
  rt_.budget().Bytes(static_cast<size_t>(count), text.size());
  text_.reserve(text_.size() + static_cast<size_t>(count) * text.size());
  for (int64_t i = 0; i < count; ++i)
    text_.append(text);
  return *this;
}

}  // namespace tenon::chat

#include "model/chat/value.h"

#include "model/chat/iteration.h"

namespace tenon::chat {

std::string_view TypeName(const Value& value) {
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kUint:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.string->markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      return value.view->kind == ViewKind::kKeys     ? "dict_keys"
             : value.view->kind == ViewKind::kValues ? "dict_values"
                                                     : "dict_items";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.iterator->type_name();
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

}  // namespace tenon::chat

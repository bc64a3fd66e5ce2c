// Regular expressions as grammars: the part of ECMA-262 (JSON Schema's dialect) that describes a
// regular language. Classes mean ASCII, as there; \D and \W leave out what is not ASCII, because
// other dialects differ there.
// Threading: one thread at a time for each grammar.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/constrain/code_set.h"
#include "engine/constrain/grammar.h"

namespace tenon {

enum class TextForm : uint8_t {
  kPlain,       // the text itself, in UTF-8
  kJsonString,  // inside the quotes of a JSON string
};

enum class RegexMatch : uint8_t {
  kWhole,     // the expression describes the whole text
  kAnywhere,  // a part of it, unless ^ or $ say otherwise
};

// Fails with kInvalidArgument, giving the place, for what is no expression, and with kUnsupported
// for look-around, back references, word boundaries and properties.
Result<Grammar::Term> CompileRegex(Grammar& grammar, std::string_view pattern, TextForm form,
                                   RegexMatch match);

// One character of the set.
Grammar::Term OneCharacter(Grammar& grammar, const CodeSet& set, TextForm form);

}  // namespace tenon

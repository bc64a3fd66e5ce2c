// GBNF as grammars: the notation of llama.cpp's `grammar` field.
//
//   root ::= greeting ", " name+ [.!]?      # rules, literals, classes, * + ? {m} {m,} {m,n}
//   name ::= ("Ada" | "Grace") .            # alternatives, groups, any character
//
// A rule ends with its line; inside parentheses, after "::=" and after "|" lines may go on. Escapes
// are \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH and name code points. Rules may call
// themselves, but not before they have read something (left recursion).
// Threading: one thread at a time for each grammar.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/constrain/grammar.h"

namespace tenon {

// The rule "root". Fails with kInvalidArgument, giving line and column, for what is no grammar or
// is larger than a request may ask for, and with kUnsupported for terms of token ids (<[1]>).
Result<Grammar::Term> CompileGbnf(Grammar& grammar, std::string_view text);

}  // namespace tenon

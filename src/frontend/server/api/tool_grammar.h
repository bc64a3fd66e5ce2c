// Tool calls as grammars, in each model family's own form (message_parser.h reads them).
// Threading: one thread at a time for each grammar.
#pragma once

#include "base/result.h"
#include "engine/constrain/json_grammar.h"
#include "frontend/server/api/answer_shape.h"

namespace tenon {

// One call of one of the tools. Fails for parameters that can't be kept; `where` is the tool's
// place and the keyword's in its schema.
Result<Grammar::Term> ToolCallTerm(JsonGrammar& json, const ToolDemand& demand,
                                   const MessageSyntax& syntax);

// Any text; where it begins a call it is `call`. Fails with kUnsupported for families whose calls
// can't be told from text by a mark.
Result<Grammar::Term> TextOrCalls(Grammar& grammar, Grammar::Term call,
                                  const MessageSyntax& syntax);

}  // namespace tenon

// JSON Schema (draft 2020-12, and what draft 7 spells differently) as a grammar.
//
// Every text of the grammar satisfies the schema; not every value that satisfies it has a text:
// members come in the schema's order, without additionalProperties there are no further ones, an
// enum's values are written in one way. A keyword outside these is refused by its name, so nothing
// is left out in silence:
//   type enum const; properties required additionalProperties minProperties maxProperties; items
//   prefixItems minItems maxItems; minLength maxLength pattern format; minimum maximum
//   exclusiveMinimum exclusiveMaximum multipleOf (1); anyOf allOf oneOf (of branches that exclude
//   each other); $ref within the schema, $defs, definitions; annotations.
// Threading: any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "engine/constrain/grammar.h"
#include "engine/constrain/json_grammar.h"

namespace tenon {

// Fails with kInvalidArgument for what is no schema and with kUnsupported for what is not in the
// list; `where` of the error is the place in the schema, such as "properties.name.not".
Result<Grammar::Term> CompileJsonSchema(JsonGrammar& json, const nlohmann::ordered_json& schema);

}  // namespace tenon

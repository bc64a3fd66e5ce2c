// The attributes of an op of a plug-in as text, for graph/text.h:
//
//   {domain=com.example, operator=SoftClip, limit=float(2.5), axes=ints(0 1), mode="a text"}
//
// Domain and operator come first; the attributes follow in the order in which they were given.
#pragma once

#include <string>

#include "base/result.h"
#include "graph/ops/attrs.h"
#include "graph/plugin/plugin_operators.h"
#include "graph/text_tokens.h"

namespace tenon {

// Without the braces; empty when no operator is set.
std::string PrintPluginAttrs(const PluginAttrs& attrs);

// With the braces. `operators` may be null: then no operator is known.
Result<PluginAttrs> ParsePluginAttrs(LineReader& reader, const PluginOperators* operators);

}  // namespace tenon

// Graphs as text: for `tenon inspect`, for tests as data, for people.
//
//   %0: i32[N] = input  # tokens
//   @blk.0.attn_norm.weight: f32[576]
//   @attn_qkv.weight[0:64]: q4_k[64,576]
//   %12: f32[N,576] = rms_norm(%3, @blk.0.attn_norm.weight) {eps=1e-05, group=576}  # layer 0 norm
//   return %12
//
// Values are numbered in the order of their appearance, so equal graphs have equal texts; a weight
// is declared before the first op that uses it, an unused one is left out.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace tenon {

class PluginOperators;

// "f32[N,576]".
std::string TypeText(const ValueType& type);
std::string TypeText(const Value& value);

std::string PrintGraph(const Graph& graph);

// The graph of a text. Types are inferred and must be those written. Fails with "line n" in
// `where`. The result has passed VerifyGraph. `plugins` has the operators of its plugin ops; null:
// there are none.
Result<Graph> ParseGraph(std::string_view text, const PluginOperators* plugins = nullptr);

}  // namespace tenon

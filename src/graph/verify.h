// The rules every graph keeps, checked after it is built and after each pass.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace tenon {

// Fails with the first rule that does not hold, naming the op and the value:
//  - every value is produced by at most one op, before its first use, and knows its producer;
//  - every op's outputs have the types its shape function gives (quantized in place of F32 where
//    attrs.h allows it);
//  - no two attention ops share a KV layer;
//  - weights say which rows of which tensor they are, and one tensor has one dtype and row length;
//  - inputs have different names;
//  - there is at least one graph output, and all of them are produced by ops.
Status VerifyGraph(const Graph& graph);

}  // namespace tenon

// The passes, one file each. Each keeps the values of the graph's outputs up to rounding, keeps the
// graph verifiable, and does nothing where its pattern is not exactly met.
#pragma once

#include "base/result.h"
#include "graph/graph.h"
#include "graph/passes/optimize.h"

namespace tenon {

// Removes ops without effect whose outputs nobody uses.
Status DeadCode(Graph& graph, const PassOptions& options);

// Makes equal pure ops on equal inputs one op; the order of add's and mul's inputs does not matter.
Status CommonSubexpressions(Graph& graph, const PassOptions& options);

// scale(scale(x)) -> scale(x); scale by 1 -> x; scale(embed) -> embed with the product;
// attention(scale(q)) and attention(rope(scale(q))) -> attention with the product.
Status FoldScales(Graph& graph, const PassOptions& options);

// mul(silu(linear(x, a)), linear(x, b)) -> linear(x, a, b) with kSiluMul; gelu likewise.
Status GateUp(Graph& graph, const PassOptions& options);

// linear(x, a), linear(x, b) -> linear(x, a, b) with two outputs. Quantized and float weights are
// not mixed, nor linears with and without biases.
Status MergeLinears(Graph& graph, const PassOptions& options);

// add(linear(x), r) -> linear with kAddResidual; add(rms_norm(x), r) -> rms_norm with add_residual.
Status ResidualEpilogue(Graph& graph, const PassOptions& options);

// attention(rope(q), rope(k), v) -> attention with fused_rope.
Status RopeIntoAttention(Graph& graph, const PassOptions& options);

// select_rows(f(x)) -> f(select_rows(x)) for f that works row by row, as often as it goes: after
// the last attention only the rows whose logits are wanted are computed.
Status NarrowRows(Graph& graph, const PassOptions& options);

// In int8 mode: linear(x) and experts(x), all weights of x quantized -> the same of quantize(x),
// one quantize for each x.
Status ExplicitQuantize(Graph& graph, const PassOptions& options);

// quantize(rms_norm | gated linear | attention) -> the same op with a quantized output, when the
// quantize is the only user.
Status QuantizeEpilogue(Graph& graph, const PassOptions& options);

}  // namespace tenon

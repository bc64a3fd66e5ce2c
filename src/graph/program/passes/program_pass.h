// Passes over programs: a named, ordered list, each timed and verified, each of which can be
// switched off by its name. What a pass makes computes what the nodes it replaces computed;
// products and norms may round differently, within float's precision.
//
// Threading: free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/program/program.h"

namespace tenon {

struct ProgramPassContext {
  // Runs a program without inputs and makes its outputs constants of `target`, in order. The
  // engine's kernels are above this layer; without an evaluator nothing is folded.
  std::function<Result<std::vector<ProgramValueId>>(Program part, Program& target)> evaluate;
  std::vector<std::string> disabled;
};

struct ProgramPass {
  std::string_view name;
  std::string_view summary;  // one line for people
  Status (*run)(Program& program, const ProgramPassContext& context);
};

std::span<const ProgramPass> ProgramPasses();

struct ProgramPassStats {
  std::string name;
  double milliseconds = 0;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
};

// Runs all passes but the disabled ones. kInvalidArgument for a disabled name that is no pass;
// kInternal, with the pass's name, when one breaks the program.
Result<std::vector<ProgramPassStats>> OptimizeProgram(Program& program,
                                                      const ProgramPassContext& context);
Result<ProgramPassStats> RunProgramPass(Program& program, std::string_view name,
                                        const ProgramPassContext& context);

// The passes.
//   dead_code              nodes that no output needs
//   remove_identities      Identity, Dropout, Cast to the value's own type, x*1, x+0, x/1
//   fold_constants         nodes of constants only
//   fold_shapes            shapes computed from shapes, where dimensions are known by name
//   common_subexpressions  equal nodes of equal inputs
//   fuse_norms             decomposed LayerNorm and RMS norm
//   fuse_activations       decomposed GELU (erf and tanh), x*sigmoid(x)*y
//   fuse_rotary            x*cos + rotate_half(x)*sin
//   fuse_attention         softmax(q k^T * s + mask) v, repeated key heads, their transpositions
//   unflatten_linears      Reshape to [rows, k], Gemm, Reshape back
//   narrow_rows            rows that a selection at the end leaves out
//   merge_linears          products of one x with several constants
//   fuse_linears           bias, activation and residual into the product
//   remove_transposes      transpositions that cancel each other
Status DeadCode(Program& program, const ProgramPassContext& context);
Status RemoveIdentities(Program& program, const ProgramPassContext& context);
Status FoldConstants(Program& program, const ProgramPassContext& context);
Status FoldShapes(Program& program, const ProgramPassContext& context);
Status MergeCommonNodes(Program& program, const ProgramPassContext& context);
Status FuseNorms(Program& program, const ProgramPassContext& context);
Status FuseActivations(Program& program, const ProgramPassContext& context);
Status FuseRotary(Program& program, const ProgramPassContext& context);
Status FuseAttention(Program& program, const ProgramPassContext& context);
Status UnflattenLinears(Program& program, const ProgramPassContext& context);
Status NarrowRows(Program& program, const ProgramPassContext& context);
Status MergeProducts(Program& program, const ProgramPassContext& context);
Status FuseProducts(Program& program, const ProgramPassContext& context);
Status RemoveTransposes(Program& program, const ProgramPassContext& context);

}  // namespace tenon

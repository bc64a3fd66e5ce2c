#include "graph/program/passes/program_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace tenon {
namespace {

// Types and shapes that fold_shapes finds are what later passes ask for.
constexpr ProgramPass kPasses[] = {
    {"fold_constants", "nodes of constants only", FoldConstants},
    {"fold_shapes", "shapes computed from shapes", FoldShapes},
    {"remove_identities", "identities, casts to the same type, x*1, x+0", RemoveIdentities},
    {"common_subexpressions", "equal nodes of equal inputs", MergeCommonNodes},
    {"remove_transposes", "transpositions that cancel each other", RemoveTransposes},
    {"fuse_norms", "LayerNorm and RMS norm from their parts", FuseNorms},
    {"fuse_activations", "GELU and SwiGLU from their parts", FuseActivations},
    {"fuse_rotary", "rotary embedding from its parts", FuseRotary},
    {"fuse_attention", "attention from its parts, with its transpositions", FuseAttention},
    {"unflatten_linears", "products of rows that were flattened for it", UnflattenLinears},
    {"narrow_rows", "rows that nothing reads, up to where they begin", NarrowRows},
    {"merge_linears", "products of one x with several weights (QKV)", MergeProducts},
    {"fuse_linears", "bias, activation and residual into the product", FuseProducts},
    {"dead_code", "nodes that no output needs", DeadCode},
};

}  // namespace

std::span<const ProgramPass> ProgramPasses() {
  return kPasses;
}

Result<ProgramPassStats> RunProgramPass(Program& program, std::string_view name,
                                        const ProgramPassContext& context) {
  const auto* pass = std::find_if(std::begin(kPasses), std::end(kPasses),
                                  [&](const ProgramPass& p) { return p.name == name; });
  if (pass == std::end(kPasses))
    return InvalidArgument(fmt::format("no pass of programs is called '{}'", name));
  ProgramPassStats stats;
  stats.name = name;
  stats.nodes_before = program.nodes.size();
  const auto start = std::chrono::steady_clock::now();
  TENON_RETURN_IF_ERROR(pass->run(program, context));
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  stats.milliseconds = time.count();
  stats.nodes_after = program.nodes.size();
  if (const Status verified = VerifyProgram(program); !verified.ok())
    return MakeError(ErrorCode::kInternal, fmt::format("the pass {} broke the program: {}", name,
                                                       verified.error().ToString()));
  return stats;
}

Result<std::vector<ProgramPassStats>> OptimizeProgram(Program& program,
                                                      const ProgramPassContext& context) {
  for (const std::string& name : context.disabled) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses),
                                   [&](const ProgramPass& p) { return p.name == name; });
    if (!known)
      return InvalidArgument(fmt::format("no pass of programs is called '{}'", name));
  }
  std::vector<ProgramPassStats> all;
  for (const ProgramPass& pass : kPasses) {
    if (std::find(context.disabled.begin(), context.disabled.end(), pass.name) !=
        context.disabled.end())
      continue;
    TENON_ASSIGN_OR_RETURN(ProgramPassStats stats, RunProgramPass(program, pass.name, context));
    all.push_back(std::move(stats));
  }
  return all;
}

}  // namespace tenon

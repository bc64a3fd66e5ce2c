// unflatten_linears: exporters of GPT-2 flatten [.., k] to [rows, k], multiply (Gemm), add a bias
// and give [.., n] its dimensions back, with a dozen nodes for the sizes. That is a MatMul of the
// rows as they were, and an Add.
#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

// Both shapes are known and equal but for the last dimension.
bool SameLeadingDims(const Program& program, ProgramValueId a, ProgramValueId b) {
  if (KnownRank(program, a) < 1 || KnownRank(program, a) != KnownRank(program, b))
    return false;
  const auto& x = *program.value(a).shape;
  const auto& y = *program.value(b).shape;
  for (size_t d = 0; d + 1 < x.size(); ++d) {
    if (!SameDims(x[d], y[d]))
      return false;
  }
  return true;
}

bool IsPlainGemm(const ProgramNode& node) {
  return node.Is("Gemm") && node.Integer("transA", 0) == 0 && node.Integer("transB", 0) == 0 &&
         node.Float("alpha", 1.0F) == 1.0F && node.Float("beta", 1.0F) == 1.0F;
}

// What was flattened to the product's input; invalid when it is not rows of the same width.
ProgramValueId Rows(ProgramIndex& index, const ProgramNode& gemm) {
  const Program& program = index.program();
  ProgramNode* flat = index.ProducerOf(gemm.inputs[0], "Reshape");
  if (flat == nullptr || KnownRank(program, gemm.inputs[0]) != 2)
    return {};
  const int64_t width = KnownExtent(program, gemm.inputs[0], 1);
  return width > 0 && KnownExtent(program, flat->inputs[0], -1) == width ? flat->inputs[0]
                                                                         : ProgramValueId();
}

void UnflattenAt(ProgramIndex& index, ProgramNode& back) {
  Program& program = index.program();
  ProgramNode* gemm = index.Producer(back.Input(0));
  if (gemm == nullptr || !IsPlainGemm(*gemm) || !index.HasOneUse(back.inputs[0]))
    return;
  const ProgramValueId x = Rows(index, *gemm);
  const ProgramValueId w = gemm->inputs[1];
  const ProgramValueId bias = gemm->Input(2);
  const int64_t columns = KnownExtent(program, w, 1);
  const bool has_bias = bias.valid();
  if (!x.valid() || KnownRank(program, w) != 2 || columns < 1 ||
      KnownExtent(program, back.outputs[0], -1) != columns ||
      !SameLeadingDims(program, x, back.outputs[0]) ||
      (has_bias && (KnownRank(program, bias) != 1 || KnownExtent(program, bias, 0) != columns)))
    return;
  ProgramNode product;
  product.op = "MatMul";
  product.name = gemm->name;
  product.version = gemm->version;
  product.inputs = {x, w};
  if (!has_bias) {
    product.outputs = back.outputs;
    index.Replace(back, std::move(product));
    return;
  }
  ProgramNode sum;
  sum.op = "Add";
  sum.name = back.name;
  sum.version = back.version;
  sum.outputs = back.outputs;
  const ProgramValueId made = program.AddValue(gemm->name + " rows", ElementType::kF32);
  program.value(made).type = program.value(back.outputs[0]).type;
  program.value(made).shape = program.value(back.outputs[0]).shape;
  product.outputs = {made};
  sum.inputs = {made, bias};
  index.Replace(*gemm, std::move(product));
  index.Replace(back, std::move(sum));
}

}  // namespace

Status UnflattenLinears(Program& program, const ProgramPassContext&) {
  RewriteEach(program, "Reshape", UnflattenAt);
  return {};
}

}  // namespace tenon

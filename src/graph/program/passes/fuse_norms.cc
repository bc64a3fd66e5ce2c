// fuse_norms: before
//   d = x - mean(x); y = d / sqrt(mean(d^2) + eps) * w + b     (d = x and no b: an RMS norm)
// after: LayerNormalization(x, w, b), or SimplifiedLayerNormalization(x, w).
#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

struct Normalised {
  ProgramValueId x;
  double eps = 0.0;
  bool centred = false;
};

// The mean over the last dimension, kept: its input.
ProgramValueId MeanOf(ProgramIndex& index, ProgramValueId id) {
  ProgramNode* node = index.ProducerOf(id, "ReduceMean");
  if (node == nullptr || node->Integer("keepdims", 1) == 0)
    return {};
  std::optional<std::vector<int64_t>> axes = index.Integers(node->Input(1));
  if (const auto* list = node->Integers("axes"))
    axes = *list;
  const int64_t rank = KnownRank(index.program(), node->inputs[0]);
  const bool last =
      axes && axes->size() == 1 && ((*axes)[0] == -1 || (rank > 0 && (*axes)[0] == rank - 1));
  return last ? node->inputs[0] : ProgramValueId();
}

// sqrt(mean(d^2) + eps): d.
ProgramValueId DeviationOf(ProgramIndex& index, ProgramValueId id, double& eps) {
  ProgramNode* root = index.ProducerOf(id, "Sqrt");
  const auto sum = root == nullptr ? std::nullopt : MatchScalar(index, root->inputs[0], "Add");
  const ProgramValueId square = sum ? MeanOf(index, sum->value) : ProgramValueId();
  if (!square.valid())
    return {};
  eps = sum->scalar;
  const auto power = MatchScalar(index, square, "Pow");
  if (power && power->scalar == 2.0)
    return power->value;
  ProgramNode* product = index.ProducerOf(square, "Mul");
  return product != nullptr && product->inputs[0] == product->inputs[1] ? product->inputs[0]
                                                                        : ProgramValueId();
}

// 1 / s: s.
ProgramValueId InverseOf(ProgramIndex& index, ProgramValueId id) {
  if (ProgramNode* node = index.ProducerOf(id, "Reciprocal"))
    return node->inputs[0];
  ProgramNode* node = index.ProducerOf(id, "Div");
  const auto one = node == nullptr ? std::nullopt : index.Scalar(node->inputs[0]);
  return one && *one == 1.0 ? node->inputs[1] : ProgramValueId();
}

std::optional<Normalised> Finish(ProgramIndex& index, ProgramValueId d, ProgramValueId root) {
  Normalised match;
  if (!root.valid() || DeviationOf(index, root, match.eps) != d)
    return std::nullopt;
  match.x = d;
  ProgramNode* centred = index.ProducerOf(d, "Sub");
  if (centred != nullptr && MeanOf(index, centred->inputs[1]) == centred->inputs[0]) {
    match.x = centred->inputs[0];
    match.centred = true;
  }
  return match;
}

// d / sqrt(...), or d times its inverse.
std::optional<Normalised> MatchNormalised(ProgramIndex& index, ProgramValueId id) {
  if (ProgramNode* node = index.ProducerOf(id, "Div"))
    return Finish(index, node->inputs[0], node->inputs[1]);
  ProgramNode* node = index.ProducerOf(id, "Mul");
  if (node == nullptr)
    return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ProgramValueId root = InverseOf(index, node->inputs[i]);
    if (auto match = Finish(index, node->inputs[1 - i], root))
      return match;
  }
  return std::nullopt;
}

// A constant vector as wide as x's rows.
bool IsRowConstant(const Program& program, ProgramValueId id, ProgramValueId x) {
  const Constant* constant = program.ConstantOf(id);
  return constant != nullptr && constant->type == ElementType::kF32 &&
         constant->shape.size() == 1 && constant->shape[0] == KnownExtent(program, x, -1);
}

void FuseAt(ProgramIndex& index, ProgramNode& scaled) {
  Program& program = index.program();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto match = MatchNormalised(index, scaled.inputs[1 - i]);
    if (!match || !IsF32(program, match->x) || !IsRowConstant(program, scaled.inputs[i], match->x))
      continue;
    ProgramNode norm;
    norm.op = match->centred ? "LayerNormalization" : "SimplifiedLayerNormalization";
    norm.name = scaled.name;
    norm.version = scaled.version;
    norm.inputs = {match->x, scaled.inputs[i]};
    norm.outputs = scaled.outputs;
    norm.attributes.emplace_back("axis", int64_t{-1});
    norm.attributes.emplace_back("epsilon", static_cast<float>(match->eps));
    const auto users = index.Users(scaled.outputs[0]);
    ProgramNode* biased = match->centred && index.HasOneUse(scaled.outputs[0]) &&
                                  users.size() == 1 && users[0]->Is("Add")
                              ? users[0]
                              : nullptr;
    const ProgramValueId bias =
        biased == nullptr ? ProgramValueId() : OtherInput(*biased, scaled.outputs[0]);
    if (!IsRowConstant(program, bias, match->x)) {
      index.Replace(scaled, std::move(norm));
      return;
    }
    norm.inputs.push_back(bias);
    norm.outputs = biased->outputs;
    index.Remove(scaled);
    index.Replace(*biased, std::move(norm));
    return;
  }
}

}  // namespace

Status FuseNorms(Program& program, const ProgramPassContext&) {
  RewriteEach(program, "Mul", FuseAt);
  return {};
}

}  // namespace tenon

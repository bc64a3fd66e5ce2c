#include "graph/program/passes/patterns.h"

#include <cmath>

namespace tenon {

ProgramValueId OtherInput(const ProgramNode& node, ProgramValueId id) {
  if (node.inputs.size() != 2)
    return {};
  if (node.inputs[0] == id)
    return node.inputs[1];
  return node.inputs[1] == id ? node.inputs[0] : ProgramValueId();
}

std::optional<WithScalar> MatchScalar(ProgramIndex& index, ProgramValueId id, std::string_view op) {
  ProgramNode* node = index.ProducerOf(id, op);
  if (node == nullptr || node->inputs.size() != 2)
    return std::nullopt;
  if (const auto second = index.Scalar(node->inputs[1]))
    return WithScalar{*second, node->inputs[0]};
  const bool commutes = op == "Mul" || op == "Add";
  if (const auto first = index.Scalar(node->inputs[0]); first && commutes)
    return WithScalar{*first, node->inputs[1]};
  return std::nullopt;
}

std::vector<ProgramValueId> Factors(ProgramIndex& index, const ProgramNode& product) {
  std::vector<ProgramValueId> factors(product.inputs);
  for (size_t i = 0; i < factors.size() && factors.size() < 8;) {
    ProgramNode* inner = index.ProducerOf(factors[i], "Mul");
    if (inner == nullptr || !index.HasOneUse(factors[i])) {
      ++i;
      continue;
    }
    factors[i] = inner->inputs[0];
    factors.push_back(inner->inputs[1]);
  }
  return factors;
}

bool IsNear(double a, double b) {
  // Constants are rounded to float or half.
  return std::fabs(a - b) <= std::fabs(b) * 1e-3;
}

int64_t KnownExtent(const Program& program, ProgramValueId id, int64_t dimension) {
  if (!id.valid() || !program.value(id).shape)
    return -1;
  const auto& shape = *program.value(id).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t d = dimension < 0 ? dimension + rank : dimension;
  return d < 0 || d >= rank ? -1 : shape[static_cast<size_t>(d)].value;
}

bool SameDims(const ProgramDim& a, const ProgramDim& b) {
  return a == b && (a.value >= 0 || !a.name.empty());
}

bool SameShape(const Program& program, ProgramValueId a, ProgramValueId b) {
  if (a == b)
    return true;
  const auto& x = program.value(a).shape;
  const auto& y = program.value(b).shape;
  if (!x || !y || x->size() != y->size())
    return false;
  for (size_t d = 0; d < x->size(); ++d) {
    if (!SameDims((*x)[d], (*y)[d]))
      return false;
  }
  return true;
}

int64_t KnownRank(const Program& program, ProgramValueId id) {
  return id.valid() && program.value(id).shape
             ? static_cast<int64_t>(program.value(id).shape->size())
             : -1;
}

bool IsF32(const Program& program, ProgramValueId id) {
  return id.valid() && program.value(id).type == ElementType::kF32;
}

}  // namespace tenon

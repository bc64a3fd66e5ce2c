// fuse_activations: before
//   x * 0.5 * (1 + erf(x / sqrt 2)),   x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))),
//   x * sigmoid(x) * y                 (factors in any order and grouping)
// after: Gelu(x), Gelu[tanh](x), tenon.SwiGlu(x, y); x * sigmoid(x) alone is Swish(x).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

using Ids = std::vector<ProgramValueId>;

// x / sqrt 2, or x times its inverse.
bool IsOverRootTwo(ProgramIndex& index, ProgramValueId id, ProgramValueId x) {
  const auto divided = MatchScalar(index, id, "Div");
  if (divided && divided->value == x && IsNear(divided->scalar, std::numbers::sqrt2))
    return true;
  const auto scaled = MatchScalar(index, id, "Mul");
  return scaled && scaled->value == x && IsNear(scaled->scalar, 1.0 / std::numbers::sqrt2);
}

// sqrt(2/pi) * (x + 0.044715 x^3)
bool IsTanhArgument(ProgramIndex& index, ProgramValueId id, ProgramValueId x) {
  const auto outer = MatchScalar(index, id, "Mul");
  if (!outer || !IsNear(outer->scalar, std::sqrt(2.0 / std::numbers::pi)))
    return false;
  ProgramNode* sum = index.ProducerOf(outer->value, "Add");
  const ProgramValueId cube = sum == nullptr ? ProgramValueId() : OtherInput(*sum, x);
  const auto scaled = cube.valid() ? MatchScalar(index, cube, "Mul") : std::nullopt;
  if (!scaled || !IsNear(scaled->scalar, 0.044715))
    return false;
  const auto power = MatchScalar(index, scaled->value, "Pow");
  return power && power->scalar == 3.0 && power->value == x;
}

enum class GeluKind : uint8_t { kNone, kErf, kTanh };

// 1 + erf(x / sqrt 2) or 1 + tanh(...).
GeluKind GateOf(ProgramIndex& index, ProgramValueId id, ProgramValueId x) {
  const auto sum = MatchScalar(index, id, "Add");
  if (!sum || sum->scalar != 1.0)
    return GeluKind::kNone;
  ProgramNode* erf = index.ProducerOf(sum->value, "Erf");
  if (erf != nullptr && IsOverRootTwo(index, erf->inputs[0], x))
    return GeluKind::kErf;
  ProgramNode* tanh = index.ProducerOf(sum->value, "Tanh");
  return tanh != nullptr && IsTanhArgument(index, tanh->inputs[0], x) ? GeluKind::kTanh
                                                                      : GeluKind::kNone;
}

bool FuseGelu(ProgramIndex& index, ProgramNode& node, const Ids& factors) {
  if (factors.size() != 3)
    return false;
  for (const ProgramValueId half : factors) {
    const auto scalar = index.Scalar(half);
    if (!scalar || *scalar != 0.5)
      continue;
    for (const ProgramValueId x : factors) {
      for (const ProgramValueId gate : factors) {
        if (x == half || gate == half || gate == x || !IsF32(index.program(), x))
          continue;
        const GeluKind kind = GateOf(index, gate, x);
        if (kind == GeluKind::kNone)
          continue;
        ProgramNode gelu;
        gelu.op = "Gelu";
        gelu.name = node.name;
        gelu.version = 20;
        gelu.inputs = {x};
        gelu.outputs = node.outputs;
        gelu.attributes.emplace_back("approximate",
                                     std::string(kind == GeluKind::kTanh ? "tanh" : "none"));
        index.Replace(node, std::move(gelu));
        return true;
      }
    }
  }
  return false;
}

bool FuseSwish(ProgramIndex& index, ProgramNode& node, const Ids& factors) {
  if (factors.size() != 2 && factors.size() != 3)
    return false;
  for (const ProgramValueId gate : factors) {
    ProgramNode* sigmoid = index.ProducerOf(gate, "Sigmoid");
    if (sigmoid == nullptr)
      continue;
    const ProgramValueId x = sigmoid->inputs[0];
    const auto found = std::find(factors.begin(), factors.end(), x);
    if (found == factors.end() || !IsF32(index.program(), x))
      continue;
    ProgramNode fused;
    fused.name = node.name;
    fused.outputs = node.outputs;
    fused.inputs = {x};
    for (const ProgramValueId other : factors) {
      if (other != x && other != gate)
        fused.inputs.push_back(other);
    }
    if (fused.inputs.size() + 1 != factors.size())
      return false;
    const bool gated = fused.inputs.size() == 2;
    if (gated && !SameShape(index.program(), x, fused.inputs[1]))
      return false;
    fused.domain = gated ? "tenon" : "";
    fused.op = gated ? "SwiGlu" : "Swish";
    fused.version = gated ? 1 : 24;
    index.Replace(node, std::move(fused));
    return true;
  }
  return false;
}

}  // namespace

Status FuseActivations(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  // From the end: a product is taken whole before its inner ones.
  for (size_t i = program.nodes.size(); i-- > 0;) {
    ProgramNode& node = program.nodes[i];
    if (index.IsRemoved(node) || !node.Is("Mul") || index.Uses(node.outputs[0]) == 0)
      continue;
    const Ids factors = Factors(index, node);
    if (!FuseGelu(index, node, factors))
      FuseSwish(index, node, factors);
  }
  index.Finish();
  return {};
}

}  // namespace tenon

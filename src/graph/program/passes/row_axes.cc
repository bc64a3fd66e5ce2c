#include "graph/program/passes/row_axes.h"

#include <algorithm>
#include <string_view>

#include "graph/program/passes/patterns.h"

namespace tenon {
namespace {

using Axes = std::optional<std::vector<int64_t>>;

constexpr int64_t kMostDimensions = 16;

constexpr std::string_view kElementwise[] = {
    "Abs",       "Add",      "And",        "Cast",     "Ceil",  "Clip",    "Cos",       "Div",
    "Elu",       "Equal",    "Erf",        "Exp",      "Gelu",  "Greater", "HardSwish", "IsNaN",
    "Less",      "Log",      "Max",        "Min",      "Mul",   "Neg",     "Not",       "Or",
    "Pow",       "Relu",     "Sigmoid",    "Sin",      "Sqrt",  "Sub",     "Tanh",      "Where",
    "LeakyRelu", "Identity", "Reciprocal", "Softplus", "Swish", "FastGelu"};
constexpr std::string_view kNorms[] = {"LayerNormalization", "SimplifiedLayerNormalization",
                                       "RMSNormalization"};

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const ProgramDim* DimOf(const Program& program, ProgramValueId id, int64_t dimension) {
  const bool known = dimension >= 0 && dimension < KnownRank(program, id);
  return known ? &(*program.value(id).shape)[static_cast<size_t>(dimension)] : nullptr;
}

bool SameDim(const ProgramDim* a, const ProgramDim* b) {
  return a != nullptr && b != nullptr && SameDims(*a, *b);
}

// Inputs that are broadcast to the output's shape.
Axes Broadcast(const Program& program, const ProgramNode& node, int64_t axis) {
  const ProgramValueId out = node.outputs[0];
  std::vector<int64_t> axes;
  for (const ProgramValueId id : node.inputs) {
    const int64_t rank = KnownRank(program, id);
    if (id.valid() && rank < 0)
      return std::nullopt;
    const int64_t own = axis - (KnownRank(program, out) - rank);
    const ProgramDim* dim = id.valid() && own >= 0 ? DimOf(program, id, own) : nullptr;
    if (dim == nullptr || dim->value == 1)
      axes.push_back(kWhole);
    else if (SameDim(dim, DimOf(program, out, axis)))
      axes.push_back(own);
    else
      return std::nullopt;
  }
  return axes;
}

// Only input 0 has rows, along the same dimension.
Axes FirstInput(const ProgramNode& node, int64_t axis) {
  std::vector<int64_t> axes(node.inputs.size(), kWhole);
  axes[0] = axis;
  return axes;
}

Axes OfMatMul(const Program& program, const ProgramNode& node, int64_t axis) {
  const int64_t rank = KnownRank(program, node.outputs[0]);
  const bool rows_of_x = KnownRank(program, node.Input(0)) == rank && axis < rank - 1 &&
                         (KnownRank(program, node.Input(1)) == 2 || axis == rank - 2);
  return rows_of_x && rank >= 2 ? FirstInput(node, axis) : std::nullopt;
}

Axes OfGemm(const Program& program, const ProgramNode& node, int64_t axis) {
  const bool plain = node.Integer("transA", 0) == 0 && axis == 0;
  const ProgramValueId bias = node.Input(2);
  const bool one_bias = !bias.valid() || KnownRank(program, bias) == 1;
  return plain && one_bias ? FirstInput(node, 0) : std::nullopt;
}

Axes OfLastDimension(const Program& program, const ProgramNode& node, int64_t axis) {
  const int64_t rank = KnownRank(program, node.outputs[0]);
  // Softmax of old operator sets counts from dimension 1.
  const int64_t own = node.Integer("axis", node.op == "Softmax" && node.version < 13 ? 1 : -1);
  const bool last = own == -1 || own == rank - 1;
  return last && axis < rank - 1 && node.outputs.size() == 1 ? FirstInput(node, axis)
                                                             : std::nullopt;
}

Axes OfTranspose(const ProgramNode& node, int64_t axis) {
  const auto* perm = node.Integers("perm");
  if (perm == nullptr || axis >= static_cast<int64_t>(perm->size()))
    return std::nullopt;
  return FirstInput(node, (*perm)[static_cast<size_t>(axis)]);
}

// A reshape that keeps the dimensions up to the rows, as 0 in its list says.
Axes OfReshape(const Program& program, const ProgramNode& node, int64_t axis) {
  const Constant* list = program.ConstantOf(node.Input(1));
  const auto sizes = list == nullptr ? std::nullopt : ConstantIntegers(*list, kMostDimensions);
  if (!sizes || node.Integer("allowzero", 0) != 0 || axis >= static_cast<int64_t>(sizes->size()) ||
      axis >= KnownRank(program, node.inputs[0]))
    return std::nullopt;
  for (int64_t d = 0; d <= axis; ++d) {
    if ((*sizes)[static_cast<size_t>(d)] != 0 &&
        (d == axis ||
         !SameDim(DimOf(program, node.inputs[0], d), DimOf(program, node.outputs[0], d))))
      return std::nullopt;
  }
  return FirstInput(node, axis);
}

Axes OfAttention(const Program& program, const ProgramNode& node, int64_t axis) {
  const int64_t rows = node.Integer("out_rows_first", 0) != 0 ? 1 : 2;
  if (axis != rows)
    return std::nullopt;
  std::vector<int64_t> axes(node.inputs.size(), kWhole);
  axes[0] = node.Integer("q_rows_first", 0) != 0 ? 1 : 2;
  const ProgramValueId mask = node.Input(3);
  if (!mask.valid())
    return axes;
  const int64_t own = KnownRank(program, mask) - 2;
  if (KnownRank(program, mask) < 0)
    return std::nullopt;
  const ProgramDim* dim = DimOf(program, mask, own);
  if (dim == nullptr || dim->value == 1)
    return axes;
  if (!SameDim(dim, DimOf(program, node.inputs[0], axes[0])))
    return std::nullopt;
  axes[3] = own;
  return axes;
}

}  // namespace

std::optional<std::vector<int64_t>> RowAxes(const Program& program, const ProgramNode& node,
                                            int64_t axis) {
  if (node.outputs.size() != 1 || node.inputs.empty() || KnownRank(program, node.outputs[0]) < 1)
    return std::nullopt;
  const int64_t last = KnownRank(program, node.outputs[0]) - 1;
  if (node.domain == "tenon") {
    if (node.op == "Attention")
      return OfAttention(program, node, axis);
    const bool rowwise = node.op == "SwiGlu" || (node.op == "Rotary" && axis < last);
    return rowwise ? Broadcast(program, node, axis) : std::nullopt;
  }
  if (!node.domain.empty())
    return std::nullopt;
  if (Has(kElementwise, node.op))
    return Broadcast(program, node, axis);
  if (Has(kNorms, node.op) || node.op == "Softmax")
    return OfLastDimension(program, node, axis);
  if (node.op == "MatMul")
    return OfMatMul(program, node, axis);
  if (node.op == "Gemm")
    return OfGemm(program, node, axis);
  if (node.op == "Reshape")
    return OfReshape(program, node, axis);
  return node.op == "Transpose" ? OfTranspose(node, axis) : std::nullopt;
}

bool IsProduct(const ProgramNode& node) {
  return node.Is("MatMul") || node.Is("Gemm") || (node.domain == "tenon" && node.op == "Attention");
}

}  // namespace tenon

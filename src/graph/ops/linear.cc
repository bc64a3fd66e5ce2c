// linear: one activation matrix times several transposed weight matrices, with bias and epilogue.
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// Of silu(a) * b and gelu(a) * b, as counted in silu.cc and gelu.cc, plus the product.
constexpr double kSiluMulFlops = 5;
constexpr double kGeluMulFlops = 10;

bool IsGated(const LinearAttrs& attrs) {
  return attrs.epilogue == Epilogue::kSiluMul || attrs.epilogue == Epilogue::kGeluMul;
}

Status CheckAttrs(const ShapeRules& rules, const LinearAttrs& attrs) {
  if (attrs.epilogue == Epilogue::kAddResidual && attrs.weight_count != 1)
    return rules.AttrError("weight_count", attrs.weight_count, "1 with a residual");
  if (IsGated(attrs) && attrs.weight_count != 2)
    return rules.AttrError("weight_count", attrs.weight_count, "2 with a gated epilogue");
  // Compared with the inputs first: the sums below cannot overflow.
  if (attrs.weight_count < 1 || attrs.weight_count > static_cast<int64_t>(rules.input_count()))
    return rules.AttrError("weight_count", attrs.weight_count,
                           fmt::format("1 to the {} inputs", rules.input_count()));
  const size_t count = static_cast<size_t>(attrs.weight_count);
  const size_t residuals = attrs.epilogue == Epilogue::kAddResidual ? 1 : 0;
  const size_t arity = 1 + count * (attrs.has_bias ? 2 : 1) + residuals;
  return rules.Arity(arity, arity);
}

Status CheckX(const ShapeRules& rules) {
  return rules.LinearInput(0);
}

Status CheckWeight(const ShapeRules& rules, size_t i) {
  TENON_RETURN_IF_ERROR(rules.WeightMatrix(i));
  if (rules.columns(i) != rules.columns(0))
    return rules.InputError(i, fmt::format("{} columns, as input 0 has", rules.columns(0)));
  return rules.TakesInput(i);
}

Status CheckWeights(const ShapeRules& rules, const LinearAttrs& attrs) {
  const size_t count = static_cast<size_t>(attrs.weight_count);
  for (size_t i = 1; i <= count; ++i) {
    TENON_RETURN_IF_ERROR(CheckWeight(rules, i));
    if (attrs.has_bias)
      TENON_RETURN_IF_ERROR(rules.ExactType(i + count, {DType::kF32, {rules.rows(i)}}));
  }
  if (IsGated(attrs) && rules.rows(1) != rules.rows(2))
    return rules.InputError(2, fmt::format("{} rows, as input 1 has", rules.rows(1).extent));
  return {};
}

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<LinearAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(CheckAttrs(rules, attrs));
  TENON_RETURN_IF_ERROR(CheckX(rules));
  TENON_RETURN_IF_ERROR(CheckWeights(rules, attrs));
  const size_t outputs = IsGated(attrs) ? 1 : static_cast<size_t>(attrs.weight_count);
  std::vector<ValueType> types;
  for (size_t i = 1; i <= outputs; ++i)
    types.push_back({DType::kF32, {rules.rows(0), rules.rows(i)}});
  if (attrs.epilogue == Epilogue::kAddResidual)
    TENON_RETURN_IF_ERROR(rules.ExactType(op.inputs.size() - 1, types[0]));
  return types;
}

double EpilogueFlops(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return 0;
    case Epilogue::kAddResidual:
      return 1;
    case Epilogue::kSiluMul:
      return kSiluMulFlops;
    case Epilogue::kGeluMul:
      return kGeluMulFlops;
  }
  return 0;
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  const auto& attrs = std::get<LinearAttrs>(op.attrs);
  const Value& x = graph.value(op.inputs[0]);
  const double rows = DimSize(x.shape[0], point);
  double products = 0;  // output elements before the epilogue
  for (size_t i = 1; i <= static_cast<size_t>(attrs.weight_count); ++i)
    products += rows * DimSize(graph.value(op.inputs[i]).shape[0], point);
  Cost cost = PerValueCost(graph, op, point, EpilogueFlops(attrs.epilogue));
  cost.flops += products * (2 * DimSize(x.shape[1], point) + (attrs.has_bias ? 1 : 0));
  return cost;
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<LinearAttrs>(any);
  return {{"weight_count", &attrs.weight_count, FieldShown::kWhenChanged},
          {"has_bias", &attrs.has_bias, FieldShown::kWhenChanged},
          {"epilogue", &attrs.epilogue, FieldShown::kWhenChanged}};
}

bool MayQuantizeOutput(const Op& op) {
  return IsGated(std::get<LinearAttrs>(op.attrs));
}

// Each element of the residual is read where it is overwritten.
std::vector<size_t> InPlace(const Op& op) {
  if (std::get<LinearAttrs>(op.attrs).epilogue != Epilogue::kAddResidual)
    return {};
  return {op.inputs.size() - 1};
}

}  // namespace

constinit const OpSchema kLinearSchema = {
    .name = "linear",
    .make = [] { return OpAttrs(LinearAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
    .may_quantize_output = MayQuantizeOutput,
    .in_place = InPlace,
};

}  // namespace tenon

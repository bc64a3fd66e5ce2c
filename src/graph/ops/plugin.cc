// plugin: what an operator of a plug-in computes (include/tenon/plugin.h).
//
// Its shape function knows numbers only. It is asked three times, each time with other numbers for
// the symbols N and R; what is the same each time is a number, what follows a symbol is its
// multiple, and the third answer has to agree with what the first two say.
#include <array>
#include <optional>
#include <set>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"
#include "graph/plugin/plugin_call.h"
#include "graph/plugin/plugin_graph_node.h"

namespace tenon {
namespace {

// Primes of their own, so that no output follows two symbols alike; R <= N as in a step.
constexpr std::array<PluginSizes, 3> kProbes = {{{11, 3}, {17, 5}, {13, 7}}};

// More columns, or rows of a weight, no model has; products with a probe do not overflow.
constexpr int64_t kMostExtent = int64_t{1} << 31;

int64_t SizeOf(Symbol symbol, const PluginSizes& sizes) {
  if (symbol == Symbol::kNone)
    return 1;
  return symbol == Symbol::kTokens ? sizes.tokens : sizes.outputs;
}

// The dimension that has these extents at the probes.
std::optional<Dim> FindDim(const std::array<int64_t, kProbes.size()>& extents) {
  for (const Symbol symbol : {Symbol::kNone, Symbol::kTokens, Symbol::kOutputs}) {
    const int64_t factor = extents[0] / SizeOf(symbol, kProbes[0]);
    bool fits = true;
    for (size_t i = 0; i < kProbes.size(); ++i)
      fits = fits && extents[i] == factor * SizeOf(symbol, kProbes[i]);
    if (fits)
      return Dim{symbol, factor};
  }
  return std::nullopt;
}

using Answers = std::array<std::vector<TenonOutput>, kProbes.size()>;

// The executor's temporaries are rows of floats, a row for each token or chosen row.
Result<ValueType> OutputType(const Answers& answers, size_t output) {
  const TenonOutput& first = answers[0][output];
  for (const auto& answer : answers) {
    if (answer[output].type != TENON_F32 || answer[output].rank != 2)
      return InvalidArgument(
          fmt::format("output {} is of type {} and rank {}, a graph takes "
                      "float32 of rank 2",
                      output, answer[output].type, answer[output].rank));
  }
  ValueType type;
  for (size_t d = 0; d < 2; ++d) {
    const std::optional<Dim> dim =
        FindDim({first.shape[d], answers[1][output].shape[d], answers[2][output].shape[d]});
    if (!dim)
      return InvalidArgument(fmt::format(
          "dimension {} of output {} is no number and no multiple of the rows", d, output));
    type.shape.push_back(*dim);
  }
  const bool rows = type.shape[0].symbol != Symbol::kNone && type.shape[0].extent == 1;
  if (!rows || !IsPositiveNumber(type.shape[1]) || type.shape[1].extent > kMostExtent)
    return InvalidArgument(fmt::format("output {} has to be [rows of the step, a number]", output));
  return type;
}

Status CheckInput(const ShapeRules& rules, size_t i) {
  const Value& value = rules.input(i);
  if (value.kind == ValueKind::kTemporary)
    TENON_RETURN_IF_ERROR(rules.Activation(i));
  if (value.shape.size() > TENON_PLUGIN_MAX_RANK)
    return rules.InputError(i, "at most 8 dimensions");
  for (const Dim& dim : value.shape) {
    if (dim.extent < 0 || dim.extent > kMostExtent)
      return rules.InputError(i, fmt::format("dimensions of at most {}", kMostExtent));
  }
  const bool is_ids = value.dtype == DType::kI32;
  if (IsQuantizedActivation(value.dtype) || is_ids != (value.kind == ValueKind::kInput))
    return rules.InputError(i, "float activations, ids of the step or a weight");
  return {};
}

Status CheckNames(const PluginAttrs& attrs) {
  std::set<std::string_view> names;
  for (const PluginValue& attribute : attrs.values) {
    if (attribute.name.empty() || !names.insert(attribute.name).second)
      return InvalidArgument(
          fmt::format("attribute \"{}\" has no name or is there twice", attribute.name));
  }
  return {};
}

Result<std::vector<ValueType>> TypesOf(const Graph& graph, const Op& op, const PluginAttrs& attrs) {
  TENON_RETURN_IF_ERROR(CheckNames(attrs));
  Answers answers;
  for (size_t i = 0; i < kProbes.size(); ++i) {
    const PluginGraphNode node(graph, op, kProbes[i]);
    TENON_RETURN_IF_ERROR(CheckPluginInputs(*attrs.op, node));
    TENON_ASSIGN_OR_RETURN(answers[i], PluginShape(*attrs.op, node));
  }
  std::vector<ValueType> types;
  for (size_t i = 0; i < answers[0].size(); ++i) {
    TENON_ASSIGN_OR_RETURN(ValueType type, OutputType(answers, i));
    types.push_back(std::move(type));
  }
  return types;
}

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<PluginAttrs>(op.attrs);
  if (attrs.op == nullptr)
    return InvalidArgument(fmt::format("plugin \"{}\": it names no operator", op.name));
  const ShapeRules rules(graph, op);
  for (size_t i = 0; i < rules.input_count(); ++i)
    TENON_RETURN_IF_ERROR(CheckInput(rules, i));
  auto types = TypesOf(graph, op, attrs);
  if (!types.ok())
    types.error().message = fmt::format("{}.{} \"{}\": {}", attrs.op->domain, attrs.op->name,
                                        op.name, types.error().message);
  return types;
}

// What it computes is not known: bytes only.
Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return MovedBytes(graph, op, point);
}

}  // namespace

constinit const OpSchema kPluginSchema = {
    .name = "plugin",
    .effect = OpEffect::kUnknown,
    .make = [] { return OpAttrs(PluginAttrs{}); },
    .fields = [](OpAttrs&) { return std::vector<AttrField>(); },
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon

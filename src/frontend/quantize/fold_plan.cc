#include "frontend/quantize/fold_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

namespace tenon {
namespace {

class FoldPlanner {
 public:
  FoldPlanner(const Graph& graph, const GraphRange& range) : graph_(graph), range_(range) {}

  std::vector<InputGroup> Run() {
    std::vector<InputGroup> groups;
    for (size_t i = range_.first; i < range_.end; ++i) {
      const Op& op = graph_.ops()[i];
      if (const auto* attrs = std::get_if<LinearAttrs>(&op.attrs))
        AddLinear(op, *attrs, groups);
      if (const auto* attrs = std::get_if<ExpertsAttrs>(&op.attrs))
        AddExperts(op, *attrs, groups);
    }
    for (InputGroup& group : groups)
      group.fold = FindFold(group);
    return groups;
  }

 private:
  InputGroup& GroupOf(ValueId input, std::vector<InputGroup>& groups) const {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const InputGroup& known) { return known.input == input; });
    if (group != groups.end())
      return *group;
    InputGroup added;
    added.input = input;
    added.columns = graph_.value(input).shape.back().extent;
    groups.push_back(std::move(added));
    return groups.back();
  }

  void AddLinear(const Op& op, const LinearAttrs& attrs, std::vector<InputGroup>& groups) const {
    InputGroup& group = GroupOf(op.inputs[0], groups);
    for (int64_t i = 0; i < attrs.weight_count; ++i)
      group.weights.push_back(TensorOf(op, static_cast<size_t>(1 + i)));
  }

  void AddExperts(const Op& op, const ExpertsAttrs& attrs, std::vector<InputGroup>& groups) const {
    GroupOf(op.inputs[0], groups).experts =
        ExpertLayer{attrs.experts,   TensorOf(op, 2), TensorOf(op, 3),
                    TensorOf(op, 4), op.inputs[1],    attrs.activation == Epilogue::kGeluMul};
  }

  const std::string& TensorOf(const Op& op, size_t index) const {
    return graph_.value(op.inputs[index]).weight->tensor;
  }

  size_t CountUses(ValueId value) const {
    size_t uses =
        static_cast<size_t>(std::count(graph_.outputs().begin(), graph_.outputs().end(), value));
    for (const Op& op : graph_.ops())
      uses += static_cast<size_t>(std::count(op.inputs.begin(), op.inputs.end(), value));
    return uses;
  }

  // Read by linears and experts of this range, as their input, and by nothing else.
  bool IsReadByLinearsOnly(const InputGroup& group) const {
    size_t reads = 0;
    for (size_t i = range_.first; i < range_.end; ++i) {
      const Op& op = graph_.ops()[i];
      const bool multiplies = std::holds_alternative<LinearAttrs>(op.attrs) ||
                              std::holds_alternative<ExpertsAttrs>(op.attrs);
      reads += multiplies && op.inputs[0] == group.input ? 1 : 0;
    }
    return CountUses(group.input) == reads;
  }

  // The op of this range that makes the value; null: another range or the graph's input.
  const Op* ProducerOf(ValueId value) const {
    const OpId producer = graph_.value(value).producer;
    if (!producer.valid() || producer.index() < range_.first || producer.index() >= range_.end)
      return nullptr;
    return &graph_.op(producer);
  }

  std::optional<FoldTarget> FindFold(const InputGroup& group) const {
    const Op* producer = ProducerOf(group.input);
    if (producer == nullptr || !IsReadByLinearsOnly(group))
      return std::nullopt;
    if (const auto* norm = std::get_if<RmsNormAttrs>(&producer->attrs))
      return FoldIntoNorm(group, *producer, *norm);
    if (std::holds_alternative<LayerNormAttrs>(producer->attrs))
      return FoldIntoLayerNorm(group, *producer);
    if (std::holds_alternative<ReluAttrs>(producer->attrs))
      return FoldThroughRelu(group, *producer);
    if (std::holds_alternative<MulAttrs>(producer->attrs))
      return FoldThroughProduct(group, *producer);
    if (const auto* attention = std::get_if<AttentionAttrs>(&producer->attrs))
      return FoldThroughAttention(*producer, *attention);
    return std::nullopt;
  }

  static std::vector<int32_t> Identity(int64_t count) {
    std::vector<int32_t> source(static_cast<size_t>(count));
    std::iota(source.begin(), source.end(), 0);
    return source;
  }

  std::optional<FoldTarget> FoldIntoNorm(const InputGroup& group, const Op& op,
                                         const RmsNormAttrs& attrs) const {
    if (attrs.add_residual || attrs.group != group.columns || CountUses(op.inputs[1]) != 1)
      return std::nullopt;
    return FoldTarget{FoldKind::kNorm, {TensorOf(op, 1)}, "", Identity(group.columns)};
  }

  std::optional<FoldTarget> FoldIntoLayerNorm(const InputGroup& group, const Op& op) const {
    if (CountUses(op.inputs[1]) != 1 || CountUses(op.inputs[2]) != 1)
      return std::nullopt;
    return FoldTarget{
        FoldKind::kNorm, {TensorOf(op, 1), TensorOf(op, 2)}, "", Identity(group.columns)};
  }

  // x = relu(a): x / s = relu(a / s), as factors are positive.
  std::optional<FoldTarget> FoldThroughRelu(const InputGroup& group, const Op& relu) const {
    const Op* linear = FoldableLinear(relu.inputs[0]);
    if (linear == nullptr)
      return std::nullopt;
    return RowsOf(*linear, FoldKind::kRows, Identity(group.columns));
  }

  // A plain linear of one weight that only `value` shows, and whose weight only it uses.
  const Op* FoldableLinear(ValueId value) const {
    const Op* op = ProducerOf(value);
    const auto* attrs = op == nullptr ? nullptr : std::get_if<LinearAttrs>(&op->attrs);
    if (attrs == nullptr || attrs->weight_count != 1 || attrs->epilogue != Epilogue::kNone ||
        CountUses(value) != 1 || CountUses(op->inputs[1]) != 1)
      return nullptr;
    return op;
  }

  FoldTarget RowsOf(const Op& linear, FoldKind kind, std::vector<int32_t> source) const {
    FoldTarget fold{kind, {}, TensorOf(linear, 1), std::move(source)};
    if (std::get<LinearAttrs>(linear.attrs).has_bias)
      fold.vectors.push_back(TensorOf(linear, 2));
    return fold;
  }

  // x = a * b, b a linear's result: x / s = a * (b / s).
  std::optional<FoldTarget> FoldThroughProduct(const InputGroup& group, const Op& mul) const {
    for (const ValueId factor : mul.inputs) {
      if (const Op* linear = FoldableLinear(factor))
        return RowsOf(*linear, FoldKind::kRows, Identity(group.columns));
    }
    return std::nullopt;
  }

  // Attention is linear in the values: query head h shows value head h * kv_heads / heads.
  std::optional<FoldTarget> FoldThroughAttention(const Op& op, const AttentionAttrs& attrs) const {
    const Op* linear = FoldableLinear(op.inputs[2]);
    if (linear == nullptr)
      return std::nullopt;
    std::vector<int32_t> source;
    for (int64_t head = 0; head < attrs.heads; ++head) {
      const int64_t value_head = head / (attrs.heads / attrs.kv_heads);
      for (int64_t i = 0; i < attrs.head_dim; ++i)
        source.push_back(static_cast<int32_t>(value_head * attrs.head_dim + i));
    }
    return RowsOf(*linear, FoldKind::kValueRows, std::move(source));
  }

  const Graph& graph_;
  const GraphRange& range_;
};

}  // namespace

std::vector<InputGroup> PlanFolds(const Graph& graph, const GraphRange& range) {
  return FoldPlanner(graph, range).Run();
}

void TieMagnitudes(const FoldTarget& fold, std::vector<float>& magnitudes) {
  std::vector<float> largest(magnitudes.size());
  for (size_t j = 0; j < magnitudes.size(); ++j) {
    float& shared = largest[static_cast<size_t>(fold.source[j])];
    shared = std::max(shared, magnitudes[j]);
  }
  for (size_t j = 0; j < magnitudes.size(); ++j)
    magnitudes[j] = largest[static_cast<size_t>(fold.source[j])];
}

void DivideVector(const FoldTarget& fold, const std::vector<float>& scales, Matrix& vector) {
  std::vector<float> factors(vector.values().size(), 1.0F);
  for (size_t j = 0; j < scales.size(); ++j)
    factors[static_cast<size_t>(fold.source[j])] = scales[j];
  for (size_t i = 0; i < factors.size(); ++i)
    vector.values()[i] /= factors[i];
}

void DivideRows(const FoldTarget& fold, const std::vector<float>& scales, Matrix& matrix) {
  std::vector<float> factors(static_cast<size_t>(matrix.rows()), 1.0F);
  for (size_t j = 0; j < scales.size(); ++j)
    factors[static_cast<size_t>(fold.source[j])] = scales[j];
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    float* row = matrix.Row(i);
    for (int64_t j = 0; j < matrix.columns(); ++j)
      row[j] /= factors[static_cast<size_t>(i)];
  }
}

}  // namespace tenon

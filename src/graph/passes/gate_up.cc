#include <optional>
#include <utility>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// One output of a linear without an epilogue: its weight, and its bias when the linear has them.
struct Projection {
  OpId op;
  ValueId weight;
  ValueId bias;  // invalid: none
};

std::optional<Projection> FindProjection(const Graph& graph, const UseMap& uses, ValueId value) {
  const auto* attrs = ProducedBy<LinearAttrs>(graph, value);
  if (attrs == nullptr || attrs->epilogue != Epilogue::kNone || !uses.OnlyUser(value).valid())
    return std::nullopt;
  const OpId id = graph.value(value).producer;
  const Op& op = graph.op(id);
  size_t position = 0;
  while (op.outputs[position] != value)
    ++position;
  const std::span<const ValueId> biases = LinearBiases(op);
  return Projection{id, LinearWeights(op)[position], biases.empty() ? ValueId() : biases[position]};
}

// Both whole: two linears of one weight, or the two halves of one linear of two.
bool CoverWholeLinears(const Graph& graph, const Projection& gate, const Projection& up) {
  const size_t expected = gate.op == up.op ? 2 : 1;
  return graph.op(gate.op).outputs.size() == expected && graph.op(up.op).outputs.size() == expected;
}

bool MayFuse(const Graph& graph, const Projection& gate, const Projection& up) {
  const ValueId weights[] = {gate.weight, up.weight};
  return CoverWholeLinears(graph, gate, up) &&
         graph.op(gate.op).inputs[0] == graph.op(up.op).inputs[0] &&
         graph.value(gate.weight).shape == graph.value(up.weight).shape &&
         gate.bias.valid() == up.bias.valid() && ClassOf(graph, weights) != WeightClass::kMixed &&
         graph.op(gate.op).place == graph.op(up.op).place;
}

class GateUpFuser {
 public:
  explicit GateUpFuser(Graph& graph)
      : graph_(graph), uses_(graph), removed_(graph.ops().size(), false) {}

  void Run() {
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      Op& op = graph_.mutable_ops()[i];
      if (!std::holds_alternative<MulAttrs>(op.attrs))
        continue;
      if (!TryFuse(op, op.inputs[0], op.inputs[1]))
        TryFuse(op, op.inputs[1], op.inputs[0]);
    }
    RemoveOps(graph_, removed_);
  }

 private:
  // kNone when `value` is not silu or gelu of something that only it uses.
  Epilogue ActivationOf(ValueId value) const {
    if (!uses_.OnlyUser(value).valid())
      return Epilogue::kNone;
    if (ProducedBy<SiluAttrs>(graph_, value) != nullptr)
      return Epilogue::kSiluMul;
    const auto* gelu = ProducedBy<GeluAttrs>(graph_, value);
    return gelu != nullptr && !gelu->exact ? Epilogue::kGeluMul : Epilogue::kNone;
  }

  bool TryFuse(Op& mul, ValueId activated, ValueId other) {
    const Epilogue epilogue = ActivationOf(activated);
    if (epilogue == Epilogue::kNone)
      return false;
    const OpId activation = graph_.value(activated).producer;
    const auto gate = FindProjection(graph_, uses_, graph_.op(activation).inputs[0]);
    const auto up = FindProjection(graph_, uses_, other);
    if (!gate || !up || !MayFuse(graph_, *gate, *up))
      return false;
    // The product becomes the linear: everything it reads is defined before it.
    const Op& linear = graph_.op(gate->op);
    mul.name = linear.name;
    mul.attrs = LinearAttrs{2, gate->bias.valid(), epilogue};
    mul.inputs = {linear.inputs[0], gate->weight, up->weight};
    if (gate->bias.valid())
      mul.inputs.insert(mul.inputs.end(), {gate->bias, up->bias});
    for (const OpId id : {activation, gate->op, up->op})
      removed_[id.index()] = true;
    return true;
  }

  Graph& graph_;
  UseMap uses_;
  std::vector<bool> removed_;
};

}  // namespace

Status GateUp(Graph& graph, const PassOptions&) {
  GateUpFuser(graph).Run();
  return {};
}

}  // namespace tenon

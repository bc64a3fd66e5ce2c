#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "graph/memory_plan.h"
#include "graph/ops/registry.h"

namespace tenon {
namespace {

// The readers of a value are searched for each time: slow, but nothing is shared with the planner.
class PlanChecker {
 public:
  PlanChecker(const Graph& graph, const MemoryPlanOptions& options, const MemoryPlan& plan)
      : graph_(graph), options_(options), plan_(plan) {}

  Status Run() const {
    if (plan_.values.size() != graph_.values().size())
      return InvalidArgument("the plan is of another graph");
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      for (const ValueId output : graph_.ops()[i].outputs) {
        TENON_RETURN_IF_ERROR(CheckPlace(output));
        TENON_RETURN_IF_ERROR(CheckNeighbours(output, i));
      }
    }
    return {};
  }

 private:
  const ValuePlacement& At(ValueId id) const { return plan_.values[id.index()]; }

  Error ValueError(ValueId id, std::string_view what) const {
    return InvalidArgument(
        fmt::format("value {} ({}) {}", id.index(), graph_.value(id).name, what));
  }

  Status CheckPlace(ValueId id) const {
    TENON_ASSIGN_OR_RETURN(const int64_t bytes, CapacityBytes(graph_.value(id), options_));
    if (At(id).bytes != bytes)
      return ValueError(id, fmt::format("has {} bytes, expected {}", At(id).bytes, bytes));
    if (At(id).offset < 0 || At(id).offset % kArenaAlignment != 0)
      return ValueError(id, fmt::format("is at {}, which is not aligned", At(id).offset));
    if (At(id).bytes > plan_.peak_bytes - At(id).offset)
      return ValueError(id, "ends past the arena");
    return {};
  }

  size_t LastUse(ValueId id) const {
    const std::vector<ValueId>& outputs = graph_.outputs();
    if (std::find(outputs.begin(), outputs.end(), id) != outputs.end())
      return graph_.ops().size();
    size_t last = graph_.value(id).producer.index();
    for (size_t i = last; i < graph_.ops().size(); ++i) {
      const std::vector<ValueId>& inputs = graph_.ops()[i].inputs;
      if (std::find(inputs.begin(), inputs.end(), id) != inputs.end())
        last = i;
    }
    return last;
  }

  bool Overlap(ValueId a, ValueId b) const {
    return At(a).offset < At(b).offset + At(b).bytes && At(b).offset < At(a).offset + At(a).bytes;
  }

  // Values that are alive when `output` is written: defined by an op up to `index`, used there or
  // later. Together over all outputs these are all pairs that are alive at once.
  Status CheckNeighbours(ValueId output, size_t index) const {
    for (size_t i = 0; i <= index; ++i) {
      for (const ValueId other : graph_.ops()[i].outputs) {
        if (other == output || LastUse(other) < index || !Overlap(output, other))
          continue;
        if (!IsLegalInPlace(output, other, index))
          return ValueError(output, fmt::format("overlaps value {} ({})", other.index(),
                                                graph_.value(other).name));
      }
    }
    return {};
  }

  bool IsLegalInPlace(ValueId output, ValueId input, size_t index) const {
    const Op& op = graph_.ops()[index];
    const OpSchema& schema = SchemaOf(op.attrs);
    if (At(output).in_place_of != input || At(output).offset != At(input).offset ||
        LastUse(input) != index || schema.in_place == nullptr ||
        options_.in_place == InPlaceMode::kNever)
      return false;
    const std::vector<size_t> allowed = schema.in_place(op);
    size_t reads = 0;
    size_t allowed_reads = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] != input)
        continue;
      ++reads;
      allowed_reads += std::find(allowed.begin(), allowed.end(), i) != allowed.end() ? 1 : 0;
    }
    return reads > 0 && reads == allowed_reads;
  }

  const Graph& graph_;
  const MemoryPlanOptions& options_;
  const MemoryPlan& plan_;
};

}  // namespace

Status CheckMemoryPlan(const Graph& graph, const MemoryPlanOptions& options,
                       const MemoryPlan& plan) {
  return PlanChecker(graph, options, plan).Run();
}

}  // namespace tenon

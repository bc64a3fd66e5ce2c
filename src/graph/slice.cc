#include "graph/slice.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <variant>

#include "graph/liveness.h"
#include "graph/step_inputs.h"

namespace tenon {
namespace {

// The first position behind all ops that read token ids: a slice that begins there has row numbers
// of its input for tokens.
size_t BehindTokens(const Graph& graph) {
  size_t behind = 0;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (const ValueId input : graph.ops()[i].inputs) {
      const Value& value = graph.value(input);
      if (value.kind == ValueKind::kInput && value.name == kTokensInput)
        behind = i + 1;
    }
  }
  return behind;
}

// Values that ops before `position` made and that it or later ones read.
std::vector<ValueId> LiveAt(const std::vector<LiveRange>& ranges, size_t position) {
  std::vector<ValueId> live;
  for (size_t i = 0; i < ranges.size() && live.size() < 2; ++i) {
    const auto at = static_cast<int64_t>(position);
    if (ranges[i].exists() && ranges[i].first < at && ranges[i].last >= at)
      live.push_back(ValueId(static_cast<uint32_t>(i)));
  }
  return live;
}

class Slicer {
 public:
  Slicer(const Graph& source, const GraphRange& range) : source_(source), range_(range) {}

  Result<GraphSlice> Run(int64_t input_rows, SliceOutputs outputs) {
    AddInputs();
    if (range_.input.valid())
      TENON_RETURN_IF_ERROR(AddSliceInput(input_rows));
    const size_t end = outputs == SliceOutputs::kObservedOnly ? LastMultiplication() : range_.end;
    for (size_t i = range_.first; i < end; ++i)
      TENON_RETURN_IF_ERROR(CopyOp(source_.ops()[i]));
    MarkOutputs(outputs);
    return std::move(slice_);
  }

 private:
  void AddInputs() {
    for (size_t i = 0; i < source_.values().size(); ++i) {
      const Value& value = source_.values()[i];
      if (value.kind == ValueKind::kInput)
        map_[i] = slice_.graph.AddInput(value.name, value.dtype, value.shape);
    }
  }

  Status AddSliceInput(int64_t rows) {
    const Value& value = source_.value(range_.input);
    const auto tokens = std::find_if(
        source_.values().begin(), source_.values().end(),
        [](const Value& v) { return v.kind == ValueKind::kInput && v.name == kTokensInput; });
    if (tokens == source_.values().end() || value.shape.size() != 2)
      return Unsupported("the graph has no tokens, or a value that is no matrix", value.name);
    const ValueId ids = map_[static_cast<size_t>(tokens - source_.values().begin())];
    const ValueId table = slice_.graph.AddWeight(std::string(kSliceInput), DType::kF32,
                                                 {Dim{Symbol::kNone, rows}, value.shape.back()});
    TENON_ASSIGN_OR_RETURN(const auto outputs,
                           slice_.graph.AddOp("slice input", EmbedAttrs{}, {ids, table}));
    map_[range_.input.index()] = outputs.front();
    return {};
  }

  ValueId MapInput(ValueId id) {
    const auto found = map_.find(id.index());
    if (found != map_.end())
      return found->second;
    const Value& value = source_.value(id);
    const ValueId mapped = slice_.graph.AddWeightRows(*value.weight, value.dtype, value.shape);
    map_[id.index()] = mapped;
    return mapped;
  }

  Status CopyOp(const Op& op) {
    OpAttrs attrs = op.attrs;
    if (auto* attention = std::get_if<AttentionAttrs>(&attrs))
      attention->layer = layers_++;
    std::vector<ValueId> inputs;
    for (const ValueId input : op.inputs)
      inputs.push_back(MapInput(input));
    TENON_ASSIGN_OR_RETURN(const auto outputs,
                           slice_.graph.AddOp(op.name, attrs, std::move(inputs)));
    for (size_t i = 0; i < outputs.size(); ++i)
      map_[op.outputs[i].index()] = outputs[i];
    return {};
  }

  static bool Multiplies(const Op& op) {
    return std::holds_alternative<LinearAttrs>(op.attrs) ||
           std::holds_alternative<ExpertsAttrs>(op.attrs);
  }

  // Position of the last op with weights to calibrate; what it reads is made before it.
  size_t LastMultiplication() const {
    size_t last = range_.end;
    for (size_t i = range_.first; i < range_.end; ++i)
      last = Multiplies(source_.ops()[i]) ? i : last;
    return last;
  }

  void MarkOutputs(SliceOutputs outputs) {
    if (outputs == SliceOutputs::kRangeFirst)
      MarkRangeOutput();
    for (size_t i = range_.first; i < range_.end; ++i) {
      const Op& op = source_.ops()[i];
      if (Multiplies(op))
        Observe(op.inputs[0]);
      if (std::holds_alternative<ExpertsAttrs>(op.attrs))
        Observe(op.inputs[1]);  // the routes
    }
  }

  void MarkRangeOutput() {
    if (range_.output.valid())
      slice_.graph.MarkOutput(map_[range_.output.index()]);
    else
      slice_.graph.MarkOutput(map_[source_.outputs().front().index()]);
  }

  void Observe(ValueId value) {
    if (std::find(slice_.observed.begin(), slice_.observed.end(), value) != slice_.observed.end())
      return;
    slice_.observed.push_back(value);
    slice_.graph.MarkOutput(map_[value.index()]);
  }

  const Graph& source_;
  const GraphRange& range_;
  GraphSlice slice_;
  std::unordered_map<size_t, ValueId> map_;  // value of the source -> value of the slice
  int64_t layers_ = 0;
};

}  // namespace

std::vector<GraphRange> NarrowRanges(const Graph& graph) {
  const std::vector<LiveRange> live = ComputeLiveness(graph);
  std::vector<GraphRange> ranges;
  GraphRange range;
  for (size_t i = std::max<size_t>(1, BehindTokens(graph)); i < graph.ops().size(); ++i) {
    const std::vector<ValueId> passing = LiveAt(live, i);
    if (passing.size() != 1)
      continue;
    range.end = i;
    range.output = passing.front();
    ranges.push_back(range);
    range = {i, i, passing.front(), ValueId()};
  }
  range.end = graph.ops().size();
  ranges.push_back(range);
  return ranges;
}

Result<GraphSlice> SliceGraph(const Graph& graph, const GraphRange& range, int64_t input_rows,
                              SliceOutputs outputs) {
  return Slicer(graph, range).Run(input_rows, outputs);
}

}  // namespace tenon

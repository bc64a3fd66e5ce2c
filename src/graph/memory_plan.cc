#include "graph/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "graph/liveness.h"
#include "graph/ops/registry.h"

namespace tenon {
namespace {

constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();

// Memory of one value, or of a chain of values that take each other's place.
struct Buffer {
  LiveRange range;
  int64_t bytes = 0;  // padded
  int64_t offset = 0;
};

Error TooLarge(const Value& value) {
  return MakeError(ErrorCode::kResourceExhausted,
                   fmt::format("value {} does not fit 63 bits of bytes", value.name));
}

std::optional<int64_t> DimCapacity(const Dim& dim, const MemoryPlanOptions& options) {
  int64_t size = 1;
  if (dim.symbol == Symbol::kTokens)
    size = options.max_tokens;
  else if (dim.symbol == Symbol::kOutputs)
    size = options.max_outputs;
  if (size < 0 || dim.extent < 0 || __builtin_mul_overflow(size, dim.extent, &size))
    return std::nullopt;
  return size;
}

class Planner {
 public:
  Planner(const Graph& graph, const MemoryPlanOptions& options)
      : graph_(graph),
        options_(options),
        ranges_(ComputeLiveness(graph)),
        buffer_of_(graph.values().size(), kNoBuffer) {
    plan_.values.resize(graph.values().size());
  }

  Result<MemoryPlan> Run() {
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      for (const ValueId output : graph_.ops()[i].outputs)
        TENON_RETURN_IF_ERROR(Assign(i, output));
    }
    PlaceBuffers();
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      if (buffer_of_[i] != kNoBuffer)
        plan_.values[i].offset = buffers_[buffer_of_[i]].offset;
    }
    return std::move(plan_);
  }

 private:
  static constexpr size_t kNoBuffer = std::numeric_limits<size_t>::max();

  Status Assign(size_t index, ValueId output);
  std::optional<ValueId> DyingInput(size_t index, ValueId output) const;
  bool MayTake(size_t index, ValueId output, const std::vector<size_t>& allowed,
               ValueId input) const;
  void PlaceBuffers();
  int64_t PlaceInOrder(const std::vector<size_t>& order);
  int64_t BestOffset(size_t buffer, const std::vector<size_t>& placed) const;

  const Graph& graph_;
  const MemoryPlanOptions& options_;
  std::vector<LiveRange> ranges_;  // by value
  std::vector<size_t> buffer_of_;  // by value
  std::vector<Buffer> buffers_;
  MemoryPlan plan_;
};

// Gives an op's output its buffer: a dying input's, or a new one.
Status Planner::Assign(size_t index, ValueId output) {
  const Value& value = graph_.value(output);
  ValuePlacement& placement = plan_.values[output.index()];
  TENON_ASSIGN_OR_RETURN(placement.bytes, CapacityBytes(value, options_));
  if (placement.bytes > kMostBytes - kArenaAlignment)
    return TooLarge(value);
  const int64_t padded =
      (placement.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  if (__builtin_add_overflow(plan_.unshared_bytes, padded, &plan_.unshared_bytes))
    return TooLarge(value);
  if (const std::optional<ValueId> input = DyingInput(index, output)) {
    placement.in_place_of = *input;
    buffer_of_[output.index()] = buffer_of_[input->index()];
    buffers_[buffer_of_[output.index()]].range.last = ranges_[output.index()].last;
    return {};
  }
  buffer_of_[output.index()] = buffers_.size();
  buffers_.push_back({ranges_[output.index()], padded, 0});
  return {};
}

std::optional<ValueId> Planner::DyingInput(size_t index, ValueId output) const {
  const Op& op = graph_.ops()[index];
  const OpSchema& schema = SchemaOf(op.attrs);
  if (options_.in_place == InPlaceMode::kNever || schema.in_place == nullptr)
    return std::nullopt;
  const std::vector<size_t> allowed = schema.in_place(op);
  for (const size_t position : allowed) {
    if (MayTake(index, output, allowed, op.inputs[position]))
      return op.inputs[position];
  }
  return std::nullopt;
}

// The input is a temporary of the same type that dies here, and the op reads it at no position that
// must stay intact: linear(x, w, residual x) must not overwrite x.
bool Planner::MayTake(size_t index, ValueId output, const std::vector<size_t>& allowed,
                      ValueId input) const {
  const Op& op = graph_.ops()[index];
  const LiveRange& range = ranges_[input.index()];
  if (!range.exists() || range.last != static_cast<int64_t>(index))
    return false;
  if (graph_.value(input).dtype != graph_.value(output).dtype ||
      graph_.value(input).shape != graph_.value(output).shape)
    return false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == input && std::find(allowed.begin(), allowed.end(), i) == allowed.end())
      return false;
  }
  return true;
}

// Neither order is better for all graphs, and both are cheap.
void Planner::PlaceBuffers() {
  std::vector<size_t> by_time(buffers_.size());
  std::iota(by_time.begin(), by_time.end(), size_t{0});
  std::vector<size_t> by_size = by_time;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return buffers_[a].bytes > buffers_[b].bytes; });
  const int64_t sized = PlaceInOrder(by_size);
  const std::vector<Buffer> kept = buffers_;
  plan_.peak_bytes = std::min(sized, PlaceInOrder(by_time));
  if (plan_.peak_bytes == sized)
    buffers_ = kept;
}

// Sets all offsets and returns the arena's size.
int64_t Planner::PlaceInOrder(const std::vector<size_t>& order) {
  int64_t peak = 0;
  std::vector<size_t> placed;  // by offset
  for (const size_t index : order) {
    Buffer& buffer = buffers_[index];
    buffer.offset = BestOffset(index, placed);
    peak = std::max(peak, buffer.offset + buffer.bytes);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), index,
        [&](size_t a, size_t b) { return buffers_[a].offset < buffers_[b].offset; });
    placed.insert(position, index);
  }
  return peak;
}

// The start of the smallest gap that fits among the placed buffers alive at the same time, or their
// end. Offsets stay below unshared_bytes, so they cannot overflow.
int64_t Planner::BestOffset(size_t buffer, const std::vector<size_t>& placed) const {
  const Buffer& wanted = buffers_[buffer];
  int64_t best = -1;
  int64_t best_gap = kMostBytes;
  int64_t end = 0;  // of the buffers seen so far
  for (const size_t index : placed) {
    const Buffer& other = buffers_[index];
    if (other.range.last < wanted.range.first || wanted.range.last < other.range.first)
      continue;
    const int64_t gap = other.offset - end;
    if (gap >= wanted.bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, other.offset + other.bytes);
  }
  return best >= 0 ? best : end;
}

}  // namespace

Result<int64_t> CapacityBytes(const Value& value, const MemoryPlanOptions& options) {
  if (value.shape.empty())
    return GetDTypeInfo(value.dtype).block_bytes;
  const std::optional<int64_t> columns = DimCapacity(value.shape.back(), options);
  const DTypeInfo& info = GetDTypeInfo(value.dtype);
  int64_t bytes = 0;
  if (!columns || *columns % info.block_elements != 0 ||
      __builtin_mul_overflow(*columns / info.block_elements, info.block_bytes, &bytes))
    return TooLarge(value);
  for (size_t i = 0; i + 1 < value.shape.size(); ++i) {
    const std::optional<int64_t> rows = DimCapacity(value.shape[i], options);
    if (!rows || __builtin_mul_overflow(bytes, *rows, &bytes))
      return TooLarge(value);
  }
  return bytes;
}

Result<MemoryPlan> PlanMemory(const Graph& graph, const MemoryPlanOptions& options) {
  return Planner(graph, options).Run();
}

}  // namespace tenon

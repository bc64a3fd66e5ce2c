#include "engine/exec/layer_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <variant>

#include "base/check.h"
#include "graph/memory_plan.h"

namespace tenon {
namespace {

// For each value the last op that reads it; 0 for one that nobody reads.
std::vector<size_t> LastReaders(const Graph& graph) {
  std::vector<size_t> last(graph.values().size(), 0);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (const ValueId input : graph.ops()[i].inputs)
      last[input.index()] = i;
  }
  return last;
}

// The value that alone is alive before op `at`; nothing when there are more.
std::optional<ValueId> AloneAlive(const Graph& graph, const std::vector<size_t>& last, size_t at) {
  std::optional<ValueId> alone;
  for (size_t i = 0; i < at; ++i) {
    for (const ValueId output : graph.ops()[i].outputs) {
      if (last[output.index()] < at)
        continue;
      if (alone.has_value())
        return std::nullopt;
      alone = output;
    }
  }
  return alone;
}

}  // namespace

Result<std::vector<LayerCut>> FindLayerCuts(const Graph& graph, const PlanOptions& options) {
  MemoryPlanOptions memory;
  memory.max_tokens = options.max_tokens;
  memory.max_outputs = options.max_outputs;
  TENON_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(graph, memory));
  const std::vector<size_t> last = LastReaders(graph);
  std::vector<LayerCut> cuts;
  size_t earliest = 1;  // after the embedding, or the layer before
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    if (!std::holds_alternative<AttentionAttrs>(graph.ops()[op].attrs))
      continue;
    size_t at = op;
    std::optional<ValueId> states;
    for (; at >= earliest && !states.has_value(); at -= states.has_value() ? 0 : 1)
      states = AloneAlive(graph, last, at);
    if (!states.has_value() || graph.value(*states).dtype != DType::kF32)
      return Unsupported("more than the hidden states is alive between layers",
                         graph.ops()[op].name);
    const Value& value = graph.value(*states);
    cuts.push_back({at, op, plan.values[states->index()].offset, value.shape.back().extent});
    earliest = op + 1;
  }
  return cuts;
}

void StateLog::Truncate(int64_t length) {
  if (length <= base_)
    return Clear();
  end_ = std::min(end_, length);
  pieces_.resize(static_cast<size_t>(BlocksFor(end_ - base_)));
}

Result<std::unique_ptr<LayerCheckpoints>> LayerCheckpoints::Create(ModelRunner& runner,
                                                                   int64_t interval) {
  TENON_ASSIGN_OR_RETURN(const auto cuts,
                         FindLayerCuts(runner.optimized_graph(), runner.options().plan));
  const auto layers = static_cast<int64_t>(cuts.size());
  if (interval < 1 || interval > layers)
    return InvalidArgument(fmt::format("found {}, expected 1 to {}", interval, layers),
                           "checkpoint_interval");
  std::vector<Group> groups;
  for (int64_t first = 0; first < layers; first += interval) {
    const int64_t last = std::min(first + interval, layers) - 1;
    groups.push_back(
        {cuts[static_cast<size_t>(first)], cuts[static_cast<size_t>(last)].attention + 1});
  }
  return std::unique_ptr<LayerCheckpoints>(new LayerCheckpoints(runner, std::move(groups)));
}

LayerCheckpoints::LayerCheckpoints(ModelRunner& runner, std::vector<Group> groups)
    : runner_(runner), cuts_(std::move(groups)) {
  size_t steps = 0;
  for (const Group& group : cuts_)
    steps += group.last_step - group.cut.step;
  share_ = static_cast<double>(steps) / static_cast<double>(runner.plan().steps().size());
  runner.SetTap(this);
}

int64_t LayerCheckpoints::bytes_per_token() const {
  return checkpoints() * cuts_.front().cut.columns * static_cast<int64_t>(sizeof(float));
}

const float* LayerCheckpoints::RowOf(const StateLog& log, size_t checkpoint,
                                     int64_t position) const {
  const int64_t at = position - log.base_;
  const int64_t columns = cuts_.front().cut.columns;
  const int64_t row = static_cast<int64_t>(checkpoint) * kKvBlockTokens + at % kKvBlockTokens;
  return log.pieces_[static_cast<size_t>(at / kKvBlockTokens)].get() + row * columns;
}

// A log has no gaps: it begins anew with a position that does not follow.
void LayerCheckpoints::Keep(StateLog& log, size_t checkpoint, int64_t position,
                            const float* row) const {
  const int64_t columns = cuts_.front().cut.columns;
  const size_t piece = static_cast<size_t>(checkpoints() * kKvBlockTokens * columns);
  const bool follows = position >= log.base_ && position <= log.end_ && log.piece_bytes_ != 0;
  if (checkpoint == 0 && !follows) {
    log.Clear();
    log.base_ = log.end_ = position;
    log.piece_bytes_ = static_cast<int64_t>(piece * sizeof(float));
  }
  if (checkpoint == 0 && position == log.end_) {
    if ((position - log.base_) % kKvBlockTokens == 0)
      log.pieces_.push_back(std::make_unique<float[]>(piece));
    ++log.end_;
  }
  std::memcpy(const_cast<float*>(RowOf(log, checkpoint, position)), row,
              static_cast<size_t>(columns) * sizeof(float));
}

void LayerCheckpoints::Before(size_t step, const Batch& batch, const std::byte* arena) {
  const auto group = std::ranges::find(cuts_, step, [](const Group& g) { return g.cut.step; });
  if (group == cuts_.end() || watched_.empty())
    return;
  const auto* states = reinterpret_cast<const float*>(arena + group->cut.offset);
  const auto checkpoint = static_cast<size_t>(group - cuts_.begin());
  for (const auto& [sequence, log] : watched_) {
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      const auto& table = batch.block_tables[static_cast<size_t>(batch.sequences[i])];
      if (table.data() == sequence->block_table().data())
        Keep(*log, checkpoint, batch.positions[i],
             states + static_cast<int64_t>(i) * group->cut.columns);
    }
  }
}

Status LayerCheckpoints::Rebuild(Sequence& sequence, std::span<const int32_t> tokens,
                                 const StateLog& log) {
  const int64_t first = sequence.length();
  TENON_CHECK(first >= log.base() && first + static_cast<int64_t>(tokens.size()) <= log.end());
  builder_.Clear();
  builder_.AddTokens(builder_.AddSequence(sequence.block_table()), tokens, first,
                     BatchBuilder::Outputs::kNone);
  for (size_t c = 0; c < cuts_.size(); ++c) {
    const LayerCut& cut = cuts_[c].cut;
    auto* states = reinterpret_cast<float*>(runner_.arena() + cut.offset);
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::memcpy(states + static_cast<int64_t>(i) * cut.columns,
                  RowOf(log, c, first + static_cast<int64_t>(i)),
                  static_cast<size_t>(cut.columns) * sizeof(float));
    }
    TENON_RETURN_IF_ERROR(runner_.RunSteps(builder_.batch(), cut.step, cuts_[c].last_step));
  }
  sequence.Append(tokens);
  sequence.Commit();
  return {};
}

}  // namespace tenon

#include "graph/liveness.h"

namespace tenon {

std::vector<LiveRange> ComputeLiveness(const Graph& graph) {
  std::vector<LiveRange> ranges(graph.values().size());
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const int64_t position = static_cast<int64_t>(i);
    for (const ValueId id : graph.ops()[i].inputs) {
      LiveRange& range = ranges[id.index()];
      if (range.exists())
        range.last = position;
    }
    for (const ValueId id : graph.ops()[i].outputs)
      ranges[id.index()] = {position, position};
  }
  for (const ValueId id : graph.outputs()) {
    LiveRange& range = ranges[id.index()];
    if (range.exists())
      range.last = static_cast<int64_t>(graph.ops().size());
  }
  return ranges;
}

}  // namespace tenon

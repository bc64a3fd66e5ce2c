// When each value of a graph is alive, in positions of the op list.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// Alive from the op `first` that writes it to the op `last` that reads it last, both included. An
// unused temporary is alive at its own op only; a graph output until `ops().size()`.
struct LiveRange {
  int64_t first = -1;  // -1: not a temporary, or no op produces it
  int64_t last = -1;

  bool exists() const { return first >= 0; }
};

// One range for each value.
std::vector<LiveRange> ComputeLiveness(const Graph& graph);

}  // namespace tenon

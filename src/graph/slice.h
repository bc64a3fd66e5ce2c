// Cutting a graph where one value alone passes from the ops before to the ops after it: between the
// sublayers of a decoder. Pieces can run one after the other, each with its own weights resident.
//
// Threading: free functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tenon {

// The table from whose rows a slice takes its input: F32 [rows of the slice's caller, columns].
// Token ids are row numbers in it.
inline constexpr std::string_view kSliceInput = "slice.input";

// Ops [first, end) of the graph; `input` is the value that comes in (invalid: the graph's own
// inputs only), `output` the one that goes out (invalid: the graph's own outputs).
struct GraphRange {
  size_t first = 0;
  size_t end = 0;
  ValueId input;
  ValueId output;
};

// The shortest ranges between cuts, in order; together all ops.
std::vector<GraphRange> NarrowRanges(const Graph& graph);

enum class SliceOutputs : uint8_t {
  kRangeFirst,    // the range's output, then the observed values
  kObservedOnly,  // these alone: the range's last linear or experts op is not in the slice
};

struct GraphSlice {
  Graph graph;
  std::vector<ValueId> observed;  // in the original graph, for the last outputs of the slice
};

// The range as a graph of its own. Its outputs are the range's output (the graph's outputs for the
// last range) and then the input of each linear op, input and routes of experts, each value once,
// so that a caller can look at them. The layers of attention ops are numbered from 0. `input_rows`
// is the length of the table kSliceInput.
Result<GraphSlice> SliceGraph(const Graph& graph, const GraphRange& range, int64_t input_rows,
                              SliceOutputs outputs = SliceOutputs::kRangeFirst);

}  // namespace tenon

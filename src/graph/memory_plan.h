// Places all temporaries of a graph in one arena, so that values that are never alive together
// share memory.
//
// Method: liveness over the op list, in-place chains joined into one buffer, then each buffer
// placed into the smallest gap that fits between those alive at the same time: once largest first
// (greedy by size, arXiv 2001.03288), once in order of time, and the smaller arena kept. Inputs and
// weights are not in the arena.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tenon {

enum class InPlaceMode : uint8_t {
  kAllowed,  // an output may take the memory of an input that dies, where OpSchema::in_place says
             // so
  kNever,
};

struct MemoryPlanOptions {
  int64_t max_tokens = 1;   // N
  int64_t max_outputs = 1;  // R
  InPlaceMode in_place = InPlaceMode::kAllowed;
};

// Offsets and the arena's size are multiples of this: a cache line, and the widest vector.
inline constexpr int64_t kArenaAlignment = 64;

struct ValuePlacement {
  int64_t offset = -1;  // bytes from the arena's start; -1: not in the arena
  int64_t bytes = 0;    // at the largest N and R, without padding
  ValueId in_place_of;  // the input whose memory this value took; invalid: none
};

struct MemoryPlan {
  std::vector<ValuePlacement> values;  // one for each value of the graph
  int64_t peak_bytes = 0;              // size of the arena
  int64_t unshared_bytes = 0;          // what it would be if no memory were reused
};

// Rows are packed: a value [N, k] takes N * DTypeRowBytes(dtype, k) bytes. Fails when a size is
// negative or does not fit 63 bits. REQUIRES: the graph verifies.
Result<MemoryPlan> PlanMemory(const Graph& graph, const MemoryPlanOptions& options);

// Bytes of a value at capacity; 0 rows are 0 bytes. Fails on overflow.
Result<int64_t> CapacityBytes(const Value& value, const MemoryPlanOptions& options);

// Whether `plan`, made with `options`, keeps every value intact from its op to its last reader:
// full size, aligned, inside the arena, and no overlap of two values alive at the same op other
// than a legal in-place pair. For tests.
Status CheckMemoryPlan(const Graph& graph, const MemoryPlanOptions& options,
                       const MemoryPlan& plan);

}  // namespace tenon

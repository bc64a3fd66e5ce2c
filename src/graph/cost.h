// What ops cost: arithmetic and bytes moved, from their types alone.
//
// Counting: a multiply, an addition, a comparison and a call of exp, tanh, sqrt or a division are
// one FLOP each. A weight is read once per step, whatever the number of tokens. Numbers are
// doubles: exact up to 2^53 and free of overflow beyond.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tenon {

// The step whose cost is asked for.
struct CostPoint {
  int64_t tokens = 1;          // N
  int64_t outputs = 1;         // R
  int64_t context = 1;         // keys that each token attends to, before any window
  int64_t sequences = 1;       // sequences whose cache is read once each
  int64_t kv_value_bytes = 2;  // bytes of one value of the KV cache
};

struct Cost {
  double flops = 0;
  double weight_bytes = 0;      // weights read
  double activation_bytes = 0;  // inputs and temporaries read and written
  double kv_bytes = 0;          // KV cache read and written

  double bytes() const { return weight_bytes + activation_bytes + kv_bytes; }
  Cost& operator+=(const Cost& other);
  bool operator==(const Cost&) const = default;
};

Cost OpCost(const Graph& graph, const Op& op, const CostPoint& point);
Cost GraphCost(const Graph& graph, const CostPoint& point);

// Elements of a shape, and bytes of a value, with the symbols of `point` filled in.
double DimSize(const Dim& dim, const CostPoint& point);
double ElementCount(const Value& value, const CostPoint& point);
double ValueBytes(const Value& value, const CostPoint& point);

// The bytes of an op that reads its inputs and writes its outputs whole; flops are 0.
Cost MovedBytes(const Graph& graph, const Op& op, const CostPoint& point);

// MovedBytes, and flops for each value of output 0.
Cost PerValueCost(const Graph& graph, const Op& op, const CostPoint& point, double flops_per_value);

// Of rotating `head_vectors` heads of one token each: a pair takes four products and two sums.
double RopeFlops(double head_vectors, const RopeParams& rope);

}  // namespace tenon

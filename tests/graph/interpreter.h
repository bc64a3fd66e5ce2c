// A graph interpreter for tests: double arithmetic, weights made up from their names, one sequence.
//
// kActI8 holds the same numbers as F32, so quantization is the identity here and a graph before and
// after a pass must agree to rounding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon {

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> data;  // [rows, columns]

  double& at(int64_t row, int64_t column) {
    return data[static_cast<size_t>(row * columns + column)];
  }
  double at(int64_t row, int64_t column) const {
    return data[static_cast<size_t>(row * columns + column)];
  }
};

struct InterpreterOptions {
  int64_t tokens = 5;   // N; the sequence is positions 0..N-1
  int64_t outputs = 2;  // R
};

// The graph's outputs in order. REQUIRES: the graph verifies; its I32 inputs are named "tokens",
// "positions" and "rows".
std::vector<Matrix> Interpret(const Graph& graph, const InterpreterOptions& options);

}  // namespace tenon

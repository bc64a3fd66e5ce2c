// Where the factors of smoothing go: for each input that linears share, what makes that input and
// how it can be divided by them without changing what the model computes.
//
// Threading: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/slice.h"
#include "quant/matrix.h"

namespace tenon {

enum class FoldKind : uint8_t {
  kNorm,       // the weight of a norm: weight[j] /= s[j]
  kRows,       // rows of the linear before, by way of a product: W[j, :] /= s[j]
  kValueRows,  // rows of the value projection, by way of attention; query heads that share a value
               // head need equal factors
};

struct FoldTarget {
  FoldKind kind = FoldKind::kNorm;
  std::vector<std::string> vectors;  // divided by s: the norm's weight, or biases
  std::string matrix;                // whose rows are divided; empty for kNorm
  // For each column of the shared input, the row or element that carries it.
  std::vector<int32_t> source;
};

// The experts of a layer, which read the same value as their router.
struct ExpertLayer {
  int64_t experts = 0;
  std::string gate;  // [experts * M, K]
  std::string up;
  std::string down;   // [experts * K, M]
  ValueId route;      // [N, experts]
  bool gelu = false;  // in place of SiLU
};

// Linears, and experts, that read one value.
struct InputGroup {
  ValueId input;
  std::vector<std::string> weights;  // of linears
  std::optional<ExpertLayer> experts;
  int64_t columns = 0;
  std::optional<FoldTarget> fold;  // none: the input's factors can go nowhere
};

// The groups of a range's linears, in order. A fold is given only where it is exact: the input is
// read by linears alone, the weights that take the factors are used once and lie in the same range.
std::vector<InputGroup> PlanFolds(const Graph& graph, const GraphRange& range);

// Gives columns with one source the largest of their magnitudes, so that the factors made from them
// are equal.
void TieMagnitudes(const FoldTarget& fold, std::vector<float>& magnitudes);

// Element or row i becomes itself divided by the factor of the columns it carries.
void DivideVector(const FoldTarget& fold, const std::vector<float>& scales, Matrix& vector);
void DivideRows(const FoldTarget& fold, const std::vector<float>& scales, Matrix& matrix);

}  // namespace tenon

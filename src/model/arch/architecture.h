// Architectures: from a model's hyperparameters and tensor list to the graph of one step.
//
// One file for each family; the explicit list is families.h. Threading: free functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/step_inputs.h"
#include "model/arch/families.h"
#include "model/model_source.h"

namespace tenon {

// Which values of a query or key the family's GGUF files rotate together.
enum class GgufPairs : uint8_t {
  kNoFiles,     // GGUF has no such name
  kHalves,      // p and p + rotary_dim / 2; families without rotary positions too
  kNeighbours,  // 2p and 2p + 1; converters permute the rows of what was trained with halves
};

struct Architecture {
  std::string_view name;  // as general.architecture spells it
  Result<Graph> (*build)(const ModelSource& source);
  GgufPairs pairs = GgufPairs::kNoFiles;
};

std::span<const Architecture> Architectures();
// Null when there is none of that name.
const Architecture* FindArchitecture(std::string_view name);

// The unoptimised step graph: (tokens, positions, output_rows) -> logits F32 [R, vocab_size], and
// the hidden states after the final norm that they come from, F32 [R, hidden_size]; an encoder
// gives the hidden states as both. kUnsupported
// for an architecture that is not in the list; kCorrupt, naming the tensor, when a tensor is
// missing or has another shape than the hyperparameters say.
Result<Graph> BuildGraph(const ModelSource& source);

// The families' own functions, each in a file of its own.
#define TENON_DECLARE_FAMILY(name, build, pairs) Result<Graph> build(const ModelSource& source);
TENON_MODEL_FAMILIES(TENON_DECLARE_FAMILY)
#undef TENON_DECLARE_FAMILY

}  // namespace tenon

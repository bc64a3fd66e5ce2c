// Architectures: from a model's hyperparameters and tensor list to the graph of one step.
//
// One file for each family; the explicit list is in architecture.cc. Threading: free functions.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "model/model_source.h"

namespace tenon {

// Names of the step graph's inputs.
inline constexpr std::string_view kTokensInput = "tokens";        // I32 [N]
inline constexpr std::string_view kPositionsInput = "positions";  // I32 [N]
inline constexpr std::string_view kRowsInput = "output_rows";     // I32 [R]: rows of the step

struct Architecture {
  std::string_view name;  // as general.architecture spells it
  Result<Graph> (*build)(const ModelSource& source);
};

std::span<const Architecture> Architectures();

// The unoptimised step graph: (tokens, positions, output_rows) -> logits F32 [R, vocab_size], and
// the hidden states after the final norm that they come from, F32 [R, hidden_size]; an encoder
// gives the hidden states as both. kUnsupported
// for an architecture that is not in the list; kCorrupt, naming the tensor, when a tensor is
// missing or has another shape than the hyperparameters say.
Result<Graph> BuildGraph(const ModelSource& source);

// The families.
Result<Graph> BuildLlama(const ModelSource& source);
Result<Graph> BuildQwen2(const ModelSource& source);
Result<Graph> BuildQwen3(const ModelSource& source);
Result<Graph> BuildGemma2(const ModelSource& source);
Result<Graph> BuildGemma3(const ModelSource& source);
Result<Graph> BuildPhi3(const ModelSource& source);
Result<Graph> BuildGranite(const ModelSource& source);
Result<Graph> BuildMixtral(const ModelSource& source);
Result<Graph> BuildQwen2Moe(const ModelSource& source);
Result<Graph> BuildQwen3Moe(const ModelSource& source);
Result<Graph> BuildOlmoe(const ModelSource& source);
Result<Graph> BuildDeepseek2(const ModelSource& source);
Result<Graph> BuildGpt2(const ModelSource& source);
Result<Graph> BuildGptNeox(const ModelSource& source);
Result<Graph> BuildOpt(const ModelSource& source);
Result<Graph> BuildOlmo2(const ModelSource& source);
Result<Graph> BuildBert(const ModelSource& source);

}  // namespace tenon

// Mixtral (arXiv 2401.04088): Mistral's block with a mixture of experts for its feed-forward
// network; the weights of the two chosen experts add up to 1. GGUF calls it llama.
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildMixtral(const ModelSource& source) {
  return BuildLlama(source);
}

}  // namespace tenon

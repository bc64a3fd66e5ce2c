// Qwen2 and Qwen2.5 (arXiv 2407.10671): Llama's block with biases on query, key and value, which
// the builder adds where the file has them, and half-split rotary pairs, which the hyperparameters
// say.
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildQwen2(const ModelSource& source) {
  return BuildLlama(source);
}

}  // namespace tenon

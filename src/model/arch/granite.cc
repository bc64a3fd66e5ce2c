// Granite 3 dense models (IBM): Llama's block with factors on embeddings, sublayers, attention and
// logits, which the hyperparameters hold.
#include "model/arch/architecture.h"

namespace tenon {

Result<Graph> BuildGranite(const ModelSource& source) {
  return BuildLlama(source);
}

}  // namespace tenon

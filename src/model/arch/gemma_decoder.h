// What the Gemma families have in common: embeddings scaled by sqrt(hidden), norms before and after
// each sublayer, GELU gating, sliding layers between global ones. They differ in how queries and
// keys are made.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

// A layer's queries, keys and values, rotated. [N, heads * head_dim]
struct GemmaHeads {
  ValueId q;
  ValueId k;
  ValueId v;
};
// From h, the normed input of `layer`. [N, hidden]
using GemmaHeadsOf = GemmaHeads (*)(DecoderBuilder& b, ValueId h, int64_t layer);

Result<Graph> BuildGemmaDecoder(const ModelSource& source, GemmaHeadsOf heads_of);

}  // namespace tenon

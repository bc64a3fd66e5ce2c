// Gemma 3 text models (arXiv 2503.19786): embeddings scaled by sqrt(hidden), norms before and after
// each sublayer, query/key norm, GELU gating, five sliding layers to each global one, with their
// own rotary base. GGUF stores norm weights with the family's "+1" already added.
#include "model/arch/architecture.h"
#include "model/arch/gemma_decoder.h"

namespace tenon {
namespace {

// Rotary parameters of a sliding layer: the local base, no context extension.
RopeParams SlidingRope(const ModelConfig& c) {
  RopeParams rope = ToRopeParams(c.rope);
  if (c.sliding_rope_base > 0.0F)
    rope.base = c.sliding_rope_base;
  rope.scaling = static_cast<uint8_t>(RopeScaling::kNone);
  rope.factor = 1.0F;
  return rope;
}

GemmaHeads Heads(DecoderBuilder& b, ValueId h, int64_t layer) {
  const ModelConfig& c = b.config();
  const RopeParams rope = LayerWindow(c, layer) > 0 ? SlidingRope(c) : ToRopeParams(c.rope);
  ValueId q = b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size);
  ValueId k = b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size);
  ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
  q = b.Rope(b.Norm(q, "attn_q_norm.weight", c.head_dim), rope);
  k = b.Rope(b.Norm(k, "attn_k_norm.weight", c.head_dim), rope);
  return {q, k, v};
}

}  // namespace

Result<Graph> BuildGemma3(const ModelSource& source) {
  return BuildGemmaDecoder(source, Heads);
}

}  // namespace tenon

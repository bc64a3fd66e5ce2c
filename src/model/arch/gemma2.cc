// Gemma 2 (arXiv 2408.00118): Gemma 3's block without query/key norms and with one rotary base;
// scores and logits are capped by tanh, and every second layer slides. Norm weights have their 1
// added.
#include "model/arch/architecture.h"
#include "model/arch/gemma_decoder.h"

namespace tenon {
namespace {

GemmaHeads Heads(DecoderBuilder& b, ValueId h, int64_t /*layer*/) {
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  ValueId q = b.Rope(b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size), rope);
  ValueId k = b.Rope(b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size), rope);
  ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
  return {q, k, v};
}

}  // namespace

Result<Graph> BuildGemma2(const ModelSource& source) {
  return BuildGemmaDecoder(source, Heads);
}

}  // namespace tenon

// Llama and the families that share its block: Mistral, SmolLM, Yi (arXiv 2302.13971, 2310.06825).
// Granite is the same with factors on embeddings, sublayers and logits, which are 1 in the others.
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

Result<Graph> BuildLlama(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  ValueId x = b.Scaled(b.Embed(), c.embedding_scale);
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
    ValueId q = b.Rope(b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size), rope);
    ValueId k = b.Rope(b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size), rope);
    ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
    AttentionAttrs attention = b.DefaultAttention();
    attention.window = LayerWindow(c, layer);
    ValueId a = b.Attention(q, k, v, attention);
    ValueId o = b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.head_dim);
    x = b.Add(b.Scaled(o, c.residual_scale), x);
    ValueId n = b.Norm(x, "ffn_norm.weight", c.hidden_size);
    ValueId f = b.FeedForward(n, Activation::kSilu);
    x = b.Add(b.Scaled(f, c.residual_scale), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

// Qwen3 dense models (arXiv 2505.09388): Llama's block with an RMS norm over each query and key
// head before the rotation.
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

Result<Graph> BuildQwen3(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  ValueId x = b.Embed();
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
    ValueId q = b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size);
    ValueId k = b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size);
    ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
    q = b.Rope(b.Norm(q, "attn_q_norm.weight", c.head_dim), rope);
    k = b.Rope(b.Norm(k, "attn_k_norm.weight", c.head_dim), rope);
    AttentionAttrs attention = b.DefaultAttention();
    attention.window = LayerWindow(c, layer);
    ValueId a = b.Attention(q, k, v, attention);
    x = b.Add(b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.head_dim), x);
    ValueId n = b.Norm(x, "ffn_norm.weight", c.hidden_size);
    x = b.Add(b.FeedForward(n, Activation::kSilu), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

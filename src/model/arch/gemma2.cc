// Gemma 2 (arXiv 2408.00118): Gemma 3's block without query/key norms and with one rotary base;
// scores and logits are capped by tanh, and every second layer slides. Norm weights have their 1
// added.
#include <cmath>

#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {
namespace {

ValueId AttentionBlock(DecoderBuilder& b, ValueId x, int64_t layer) {
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
  ValueId q = b.Rope(b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size), rope);
  ValueId k = b.Rope(b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size), rope);
  ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
  AttentionAttrs attention = b.DefaultAttention();
  attention.window = LayerWindow(c, layer);
  ValueId a = b.Attention(q, k, v, attention);
  ValueId o = b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.head_dim);
  return b.Add(b.Norm(o, "post_attention_norm.weight", c.hidden_size), x);
}

}  // namespace

Result<Graph> BuildGemma2(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  ValueId x = b.Scale(b.Embed(), std::sqrt(static_cast<float>(c.hidden_size)));
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    x = AttentionBlock(b, x, layer);
    ValueId n = b.Norm(x, "ffn_norm.weight", c.hidden_size);
    ValueId f = b.GatedFeedForward(n, DecoderBuilder::Activation::kGelu);
    x = b.Add(b.Norm(f, "post_ffw_norm.weight", c.hidden_size), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

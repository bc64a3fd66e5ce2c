// Gemma 3 text models (arXiv 2503.19786): embeddings scaled by sqrt(hidden), norms before and after
// each sublayer, query/key norm, GELU gating, five sliding layers to each global one, with their
// own rotary base. GGUF stores norm weights with the family's "+1" already added.
#include <cmath>

#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

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

ValueId AttentionBlock(DecoderBuilder& b, ValueId x, int64_t layer) {
  const ModelConfig& c = b.config();
  const int64_t window = LayerWindow(c, layer);
  const RopeParams rope = window > 0 ? SlidingRope(c) : ToRopeParams(c.rope);
  ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
  ValueId q = b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size);
  ValueId k = b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size);
  ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
  q = b.Rope(b.Norm(q, "attn_q_norm.weight", c.head_dim), rope);
  k = b.Rope(b.Norm(k, "attn_k_norm.weight", c.head_dim), rope);
  AttentionAttrs attention = b.DefaultAttention();
  attention.window = window;
  ValueId a = b.Attention(q, k, v, attention);
  ValueId o = b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.head_dim);
  return b.Add(b.Norm(o, "post_attention_norm.weight", c.hidden_size), x);
}

}  // namespace

Result<Graph> BuildGemma3(const ModelSource& source) {
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

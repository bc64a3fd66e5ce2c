#include "model/arch/gemma_decoder.h"

#include <cmath>

#include "model/arch/architecture.h"

namespace tenon {
namespace {

ValueId AttentionBlock(DecoderBuilder& b, ValueId x, int64_t layer, GemmaHeadsOf heads_of) {
  const ModelConfig& c = b.config();
  ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
  const GemmaHeads heads = heads_of(b, h, layer);
  AttentionAttrs attention = b.DefaultAttention();
  attention.window = LayerWindow(c, layer);
  ValueId a = b.Attention(heads.q, heads.k, heads.v, attention);
  ValueId o = b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.head_dim);
  return b.Add(b.Norm(o, "post_attention_norm.weight", c.hidden_size), x);
}

}  // namespace

Result<Graph> BuildGemmaDecoder(const ModelSource& source, GemmaHeadsOf heads_of) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  ValueId x = b.Scale(b.Embed(), std::sqrt(static_cast<float>(c.hidden_size)));
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    x = AttentionBlock(b, x, layer, heads_of);
    ValueId n = b.Norm(x, "ffn_norm.weight", c.hidden_size);
    ValueId f = b.GatedFeedForward(n, Activation::kGelu);
    x = b.Add(b.Norm(f, "post_ffw_norm.weight", c.hidden_size), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

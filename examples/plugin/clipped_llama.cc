#include "plugin/clipped_llama.h"

#include "model/arch/decoder_builder.h"

namespace example {

using tenon::Activation;
using tenon::DecoderBuilder;
using tenon::ValueId;

tenon::Result<tenon::Graph> BuildClippedLlama(const tenon::ModelSource& source) {
  DecoderBuilder b(source);
  const tenon::ModelConfig& c = b.config();
  const tenon::RopeParams rope = tenon::ToRopeParams(c.rope);
  ValueId x = b.Embed();
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
    ValueId q = b.Rope(b.Linear(h, "attn_q", c.head_count * c.head_dim, c.hidden_size), rope);
    ValueId k = b.Rope(b.Linear(h, "attn_k", c.kv_head_count * c.head_dim, c.hidden_size), rope);
    ValueId v = b.Linear(h, "attn_v", c.kv_head_count * c.head_dim, c.hidden_size);
    ValueId a = b.Attention(q, k, v, b.DefaultAttention());
    x = b.Add(b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.head_dim), x);
    ValueId n = b.Norm(x, "ffn_norm.weight", c.hidden_size);
    ValueId f = b.FeedForward(n, Activation::kSilu);
    ValueId clipped = b.Plugin("clip", {"com.example", "SoftClip", {{"limit", 0.5F}}}, {f});
    x = b.Add(clipped, x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace example

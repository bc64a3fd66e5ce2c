// OLMo 2 (arXiv 2501.00656): Llama's block with its norms after each sublayer, before the sum, and
// an RMS norm over all queries and over all keys of a token, before the rotation.
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

Result<Graph> BuildOlmo2(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  const int64_t q_size = c.head_count * c.head_dim;
  const int64_t kv_size = c.kv_head_count * c.head_dim;
  ValueId x = b.Embed();
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId q = b.Norm(b.Linear(x, "attn_q", q_size, c.hidden_size), "attn_q_norm.weight", q_size);
    ValueId k =
        b.Norm(b.Linear(x, "attn_k", kv_size, c.hidden_size), "attn_k_norm.weight", kv_size);
    ValueId v = b.Linear(x, "attn_v", kv_size, c.hidden_size);
    ValueId a = b.Attention(b.Rope(q, rope), b.Rope(k, rope), v, b.DefaultAttention());
    ValueId o = b.Linear(a, "attn_output", c.hidden_size, q_size);
    x = b.Add(b.Norm(o, "post_attention_norm.weight", c.hidden_size), x);
    ValueId f = b.FeedForward(x, Activation::kSilu);
    x = b.Add(b.Norm(f, "post_ffw_norm.weight", c.hidden_size), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

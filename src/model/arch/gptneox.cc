// GPT-NeoX and Pythia (arXiv 2204.06745): rotary positions over a part of each head, layer norms,
// biases, and both sublayers beside each other on the same residual stream, each behind a norm of
// its own. Files hold query, key and value in one matrix, which the reader has taken apart.
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

Result<Graph> BuildGptNeox(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  const int64_t width = c.head_count * c.head_dim;
  ValueId x = b.Embed();
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId h = b.LayerNorm(x, "attn_norm");
    ValueId q = b.Rope(b.Linear(h, "attn_q", width, c.hidden_size), rope);
    ValueId k = b.Rope(b.Linear(h, "attn_k", width, c.hidden_size), rope);
    ValueId v = b.Linear(h, "attn_v", width, c.hidden_size);
    ValueId a =
        b.Linear(b.Attention(q, k, v, b.DefaultAttention()), "attn_output", c.hidden_size, width);
    ValueId attended = b.Add(a, x);
    ValueId f = b.PlainFeedForward(b.LayerNorm(c.parallel_residual ? x : attended, "ffn_norm"));
    x = b.Add(f, attended);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

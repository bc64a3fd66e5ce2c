// OPT (arXiv 2205.01068): GPT-2's block with ReLU; learned positions begin at row 2 of their table.
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

Result<Graph> BuildOpt(const ModelSource& source) {
  // The reference counted positions from its padding token's id, 1, on.
  constexpr int64_t kFirstPosition = 2;
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const int64_t width = c.head_count * c.head_dim;
  const ValueId tokens = b.Embed();
  ValueId x = b.Add(tokens, b.EmbedPositions(kFirstPosition));
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId h = b.LayerNorm(x, "attn_norm");
    ValueId q = b.Linear(h, "attn_q", width, c.hidden_size);
    ValueId k = b.Linear(h, "attn_k", width, c.hidden_size);
    ValueId v = b.Linear(h, "attn_v", width, c.hidden_size);
    ValueId a = b.Attention(q, k, v, b.DefaultAttention());
    x = b.Add(b.Linear(a, "attn_output", c.hidden_size, width), x);
    x = b.Add(b.PlainFeedForward(b.LayerNorm(x, "ffn_norm")), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

// BERT (arXiv 1810.04805), as an encoder of texts: every token attends to all of its text, layer
// norms come after the residual additions, and the hidden states are the result. Tokens are those
// of a single text (type 0).
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {

Result<Graph> BuildBert(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const int64_t width = c.head_count * c.head_dim;
  ValueId x = b.Add(b.Add(b.Embed(), b.EmbedFirstType()), b.EmbedPositions(0));
  x = b.LayerNorm(x, "token_embd_norm");
  AttentionAttrs attention = b.DefaultAttention();
  attention.causal = false;
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    attention.layer = layer;
    ValueId q = b.Linear(x, "attn_q", width, c.hidden_size);
    ValueId k = b.Linear(x, "attn_k", width, c.hidden_size);
    ValueId v = b.Linear(x, "attn_v", width, c.hidden_size);
    ValueId a = b.Linear(b.Attention(q, k, v, attention), "attn_output", c.hidden_size, width);
    x = b.LayerNorm(b.Add(a, x), "attn_output_norm");
    x = b.LayerNorm(b.Add(b.PlainFeedForward(x), x), "layer_output_norm");
  }
  b.EncoderHead(x);
  return b.Finish();
}

}  // namespace tenon

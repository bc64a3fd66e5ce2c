// DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437): latent attention, leading layers with a plain
// feed-forward network, then mixtures of experts with shared ones, chosen within groups.
//
// Keys and values are expanded from their latent before they go into the cache; values are as wide
// as keys there, with zeros at the end.
#include "model/arch/architecture.h"
#include "model/arch/decoder_builder.h"

namespace tenon {
namespace {

// The latents' norms have an epsilon of their own in the reference.
constexpr float kLatentEps = 1e-6F;

ValueId Queries(DecoderBuilder& b, ValueId h, const RopeParams& rope) {
  const ModelConfig& c = b.config();
  const LatentConfig& latent = c.latent;
  const int64_t rows = c.head_count * c.head_dim;
  ValueId q;
  if (latent.query_rank > 0) {
    ValueId low = b.Linear(h, "attn_q_a", latent.query_rank, c.hidden_size);
    low = b.NormWith(low, "attn_q_a_norm.weight", latent.query_rank, kLatentEps);
    q = b.Linear(low, "attn_q_b", rows, latent.query_rank);
  } else {
    q = b.Linear(h, "attn_q", rows, c.hidden_size);
  }
  ValueId plain = b.SliceHeads(q, {c.head_count, 0, latent.plain_dim});
  ValueId rotary = b.SliceHeads(q, {c.head_count, latent.plain_dim, latent.rotary_dim});
  return b.JoinHeads({c.head_count, false, 0}, plain, b.RopeHeads(rotary, rope, latent.rotary_dim));
}

struct KeysAndValues {
  ValueId keys;
  ValueId values;
};

KeysAndValues Expand(DecoderBuilder& b, ValueId h, const RopeParams& rope) {
  const ModelConfig& c = b.config();
  const LatentConfig& latent = c.latent;
  ValueId low = b.Linear(h, "attn_kv_a_mqa", latent.kv_rank + latent.rotary_dim, c.hidden_size);
  ValueId rotary = b.RopeHeads(b.SliceHeads(low, {1, latent.kv_rank, latent.rotary_dim}), rope,
                               latent.rotary_dim);
  low = b.NormWith(b.SliceHeads(low, {1, 0, latent.kv_rank}), "attn_kv_a_norm.weight",
                   latent.kv_rank, kLatentEps);
  ValueId both = b.Linear(low, "attn_kv_b", c.head_count * (latent.plain_dim + latent.value_dim),
                          latent.kv_rank);
  ValueId keys = b.JoinHeads({c.head_count, true, 0},
                             b.SliceHeads(both, {c.head_count, 0, latent.plain_dim}), rotary);
  ValueId values = b.SliceHeads(both, {c.head_count, latent.plain_dim, latent.value_dim});
  return {keys, b.PadHeads(values, c.head_count, c.head_dim - latent.value_dim)};
}

}  // namespace

Result<Graph> BuildDeepseek2(const ModelSource& source) {
  DecoderBuilder b(source);
  const ModelConfig& c = b.config();
  const RopeParams rope = ToRopeParams(c.rope);
  ValueId x = b.Embed();
  for (int64_t layer = 0; layer < c.layer_count; ++layer) {
    b.SetLayer(layer);
    ValueId h = b.Norm(x, "attn_norm.weight", c.hidden_size);
    ValueId q = Queries(b, h, rope);
    const KeysAndValues kv = Expand(b, h, rope);
    ValueId a = b.Attention(q, kv.keys, kv.values, b.DefaultAttention());
    a = b.SliceHeads(a, {c.head_count, 0, c.latent.value_dim});
    x = b.Add(b.Linear(a, "attn_output", c.hidden_size, c.head_count * c.latent.value_dim), x);
    ValueId n = b.Norm(x, "ffn_norm.weight", c.hidden_size);
    x = b.Add(b.FeedForward(n, Activation::kSilu), x);
  }
  b.Head(x);
  return b.Finish();
}

}  // namespace tenon

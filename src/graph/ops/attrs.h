// The attributes of every built-in op. The variant's alternative says which op it is; the comment
// of each struct gives inputs -> outputs. N is the number of tokens; weights are [rows, columns].
//
// An output whose dtype is kActI8 or kActI16 instead of F32 holds the same result, quantized
// (hal/kernel_set.h); rms_norm without a residual, layer_norm, linear with a gated epilogue, and
// attention whose heads / kv_heads * head_dim is a multiple of 16 and permute may have one.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

struct TenonOperator;  // include/tenon/plugin.h

namespace tenon {

// ids I32 [N], table [V, D] -> [N, D]: rows ids + offset of the table, times scale; or row
// `only_row`, when not negative, for every id. The ids are the input "tokens", or "positions".
struct EmbedAttrs {
  float scale = 1.0F;
  int64_t offset = 0;
  int64_t only_row = -1;
  bool operator==(const EmbedAttrs&) const = default;
};

// x [N, D], weight F32 [group] (, residual [N, D]) -> [N, D]. Each `group` consecutive values are
// normalised on their own (group == D: the row; group == head_dim: query/key norm). With a residual
// the result is residual + norm(x).
struct RmsNormAttrs {
  float eps = 1e-5F;
  int64_t group = 0;
  bool add_residual = false;
  bool operator==(const RmsNormAttrs&) const = default;
};

// x [N, D], weight and bias F32 [D] -> [N, D]: (x - mean) / sqrt(variance + eps) * weight + bias.
struct LayerNormAttrs {
  float eps = 1e-5F;
  bool operator==(const LayerNormAttrs&) const = default;
};

// x [N, heads * D] -> [N, heads * count]: columns begin .. begin + count - 1 of every head.
struct SliceHeadsAttrs {
  int64_t heads = 1;
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const SliceHeadsAttrs&) const = default;
};

// a [N, heads * A] (, b [N, heads * B], or [N, B] when it is shared) -> [N, heads * (A + B +
// zeros)]: each head's columns of a, then those of b, then zeros.
struct JoinHeadsAttrs {
  int64_t heads = 1;
  bool shared = false;
  int64_t zeros = 0;
  bool operator==(const JoinHeadsAttrs&) const = default;
};

enum class Epilogue : uint8_t {
  kNone,
  kAddResidual,  // one weight; a residual [N, M] is the last input and is added
  kSiluMul,      // two weights of equal shape: silu(x W0^T) * (x W1^T)
  kGeluMul,      // two weights of equal shape: gelu(x W0^T) * (x W1^T)
};

// x F32 or quantized [N, K], weights [M_i, K] x weight_count, (biases F32 [M_i] x weight_count,)
// (residual) -> with kNone one output [N, M_i] for each weight, else one output [N, M].
struct LinearAttrs {
  int64_t weight_count = 1;
  bool has_bias = false;
  Epilogue epilogue = Epilogue::kNone;
  bool operator==(const LinearAttrs&) const = default;
};

// x F32 [N, K] -> kActI8 or, with bits of 16, kActI16 [N, K].
struct QuantizeAttrs {
  int64_t bits = 8;
  bool operator==(const QuantizeAttrs&) const = default;
};

// Elementwise. a, b [N, D] -> [N, D].
struct AddAttrs {
  bool operator==(const AddAttrs&) const = default;
};
struct MulAttrs {
  bool operator==(const MulAttrs&) const = default;
};
// x -> x, elementwise.
struct ScaleAttrs {
  float factor = 1.0F;
  bool operator==(const ScaleAttrs&) const = default;
};
struct SiluAttrs {
  bool operator==(const SiluAttrs&) const = default;
};
// The tanh form, or the exact one: 0.5 x (1 + erf(x / sqrt(2))).
struct GeluAttrs {
  bool exact = false;
  bool operator==(const GeluAttrs&) const = default;
};
// max(x, 0).
struct ReluAttrs {
  bool operator==(const ReluAttrs&) const = default;
};
// cap * tanh(x / cap).
struct SoftcapAttrs {
  float cap = 0.0F;
  bool operator==(const SoftcapAttrs&) const = default;
};

// How positions become angles; the same fields as ModelConfig's RopeConfig (model layer), kept here
// so that the graph needs no model header. Scaling: 0 none, 1 linear, 2 llama3, 3 yarn.
struct RopeParams {
  float base = 10000.0F;
  int64_t rotary_dim = 0;
  bool interleaved = false;
  uint8_t scaling = 0;
  float factor = 1.0F;
  int64_t original_context = 0;
  float low_freq_factor = 1.0F;
  float high_freq_factor = 4.0F;
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  float ext_factor = 1.0F;
  float attention_factor = 0.0F;
  bool operator==(const RopeParams&) const = default;
};

// x [N, heads * head_dim], positions I32 [N] (, frequency factors F32 [rotary_dim / 2]) -> same as
// x. The factors divide the frequencies (GGUF's rope_freqs.weight).
struct RopeAttrs {
  int64_t head_dim = 0;
  RopeParams rope;
  bool operator==(const RopeAttrs&) const = default;
};

// q [N, heads * head_dim], k and v [N, kv_heads * head_dim], positions I32 [N] (, frequency
// factors) -> [N, heads * head_dim]. Writes k and v to `layer` of each token's sequence in the KV
// cache, then attends over the sequence up to the token (the last `window` tokens when not 0).
// With fused_rope, q and k are rotated first.
struct AttentionAttrs {
  int64_t layer = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 1.0F;
  float softcap = 0.0F;
  int64_t window = 0;
  bool fused_rope = false;
  RopeParams rope;  // of fused_rope
  // Not causal: over all of the sequence that is in the step, and what the cache had before it;
  // such a sequence must be in one step as a whole. Then there is no window.
  bool causal = true;
  bool operator==(const AttentionAttrs&) const = default;
};

// x [N, D], rows I32 [R] -> [R, D]. Pooling: 0 the row itself; of the rows that the row's sequence
// has in the step 1 the mean, 2 the first.
struct SelectRowsAttrs {
  uint8_t pooling = 0;
  bool operator==(const SelectRowsAttrs&) const = default;
};

// logits F32 [N, E] (, bias F32 [E]) -> [N, E]: the weight of each expert for each token, 0 for
// those that it is not sent to. Scores are softmax(logits) over all experts, or sigmoid(logits).
// The `used` experts with the highest score + bias are chosen, within the `used_groups` best of
// `groups` equal runs of experts, a run being as good as the sum of its `group_best` highest. Their
// weights are the scores, divided by their sum when `normalized`, times `scale`. Of equals the
// first is taken.
struct RouteAttrs {
  int64_t used = 0;
  bool sigmoid = false;
  bool normalized = false;
  float scale = 1.0F;
  int64_t groups = 1;
  int64_t used_groups = 1;
  int64_t group_best = 1;
  bool operator==(const RouteAttrs&) const = default;
};

// x F32 or quantized [N, K], route [N, experts], gate and up [experts * M, K],
// down [experts * K, M] -> [N, K]: for each token the sum, over its experts in ascending order, of
// route[e] * down_e(act(gate_e(x)) * up_e(x)). A row of `route` has at most `used` values that are
// not 0.
struct ExpertsAttrs {
  int64_t experts = 0;
  int64_t used = 0;
  Epilogue activation = Epilogue::kSiluMul;  // or kGeluMul
  bool operator==(const ExpertsAttrs&) const = default;
};

// x [N, D], gate [N, 1] -> [N, D]: each row times the sigmoid of its gate.
struct GateRowsAttrs {
  bool operator==(const GateRowsAttrs&) const = default;
};

// An attribute of an operator of a plug-in.
using PluginScalarOrList =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>>;
struct PluginValue {
  std::string name;
  PluginScalarOrList value;
  bool operator==(const PluginValue&) const = default;
};

// Inputs: F32 [N or R, D], ids I32, weights (read as F32); outputs F32 [N or R, D], as many and as
// wide as the operator's shape function says. `op` is a plug-in's, which is never unloaded; each
// row of an output depends on the same row of the inputs only (docs/add-op.md).
struct PluginAttrs {
  const TenonOperator* op = nullptr;
  std::vector<PluginValue> values;
  bool operator==(const PluginAttrs&) const = default;
};

// x [N, D], order F32 [D] -> [N, D]: column order[j] of x is column j. `order` holds the numbers 0
// to D - 1, as weights whose columns were sorted need their inputs.
struct PermuteAttrs {
  bool operator==(const PermuteAttrs&) const = default;
};

using OpAttrs =
    std::variant<EmbedAttrs, RmsNormAttrs, LinearAttrs, QuantizeAttrs, AddAttrs, MulAttrs,
                 ScaleAttrs, SiluAttrs, GeluAttrs, SoftcapAttrs, RopeAttrs, AttentionAttrs,
                 SelectRowsAttrs, RouteAttrs, ExpertsAttrs, GateRowsAttrs, LayerNormAttrs,
                 ReluAttrs, SliceHeadsAttrs, JoinHeadsAttrs, PluginAttrs, PermuteAttrs>;

}  // namespace tenon

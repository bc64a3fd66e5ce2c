// KernelSet: the compute kernels of one CPU instruction set, and the memory layouts they share.
//
// Each src/hal/cpu/<isa>/ exports one constinit KernelSet. A null entry is a hole, filled from the
// next set of the best-first list and in the end from `ref` (hal/kernel_registry.h). Kernels own
// nothing, allocate nothing, do not throw and may run on any thread on disjoint outputs.
//
// Determinism: the floats of one output element are accumulated in an order that depends only on
// its own row (K ascending), never on how many tokens, rows or threads a call has. So a token's
// result is the same alone or in a batch, bit for bit.
//
// This header is included by kernel files: nothing but <cstddef>, <cstdint> and layouts here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hal/kv_block.h"

namespace tenon {

// Weight rows in one packed panel: one 512-bit vector of floats, one AMX tile column block.
inline constexpr int64_t kPanelRows = 16;

// Activations that are rounded to one step. 16 rather than 32: the mean of the group's maximum
// falls, so the rounding error's power is about a quarter lower.
inline constexpr int64_t kActivationGroup = 16;

// Activations that share one float scale: two groups, as many as one k-block of weights.
inline constexpr int64_t kActivationBlockValues = 32;

// How a weight matrix [rows, k] lies in memory after packing: panels of 16 rows, each panel a
// sequence of k-blocks in ascending k, so that a kernel reads one straight stream. Rows past the
// end are zero. For all quantized kinds a k-block covers 32 values of k (`step` s = 0..7 below
// covers k = 4s..4s+3, byte r*4+j of a step belongs to row r and k = 4s+j):
//
//   kU4..., kCodebook4:  4 vectors of 64 bytes; vector v holds step v in its low nibbles and step
//                        v+4 in its high nibbles (so low nibbles are k 0..15, high are k 16..31)
//   kU5...:              the same for bits 0..3 of q, then a vector with bit 4: bit s of a byte
//                        belongs to step s
//   kU6...:              the same for bits 0..3 of q, then two vectors with bits 4 and 5: vector g
//                        is of steps 4g..4g+3, bits 2s and 2s+1 of a byte belong to step 4g+s
//   kU8...:              8 vectors of 64 bytes; vector s holds step s
//   kI14S32:             16 vectors of 32 words of 16 bits; word 2r+j of vector p belongs to row r
//                        and k = 2p+j. It is q, but for k 0..3 it is 4q plus bits 2k and 2k+1 of
//                        the row's byte e; d is the float with exponent field e and no other bit,
//                        2^(e-127), infinite for 255. No scales follow.
//   kF12S32:             8 vectors of 64 bytes; byte 4r+2j+h of vector v is the significand b of
//                        row r and k = 4v+2h+j. Then 4 vectors of nibbles c: byte i of vector g has
//                        that of byte i of vector 2g low and of vector 2g+1 high. q = b << (c & 7),
//                        negative where c has bit 3; the shift is 0..5. Then e[16], bytes, of the
//                        rows, from which d comes as above.
//   other than these two, then the scales d[16] and, where the kind has them, the minima m[16],
//   little-endian f16 (kCodebook4: float); kinds with groups of 16 (...S16...) store d for k 0..15,
//   [m for k 0..15,] d for k 16..31 [, m for k 16..31].
//
// A value is d*q + m; kinds without minima use m = -zero*d with a fixed zero point (codebook: 128):
enum class PackedKind : uint8_t {
  kF32,           // per k: 16 floats
  kF16,           // per k: 16 f16
  kBF16,          // per k: 16 bf16
  kI14S32,        // q -8191..8191:          1024 bytes  (F16 where k % 32 == 0)
  kF12S32,        // q -8160..8160, 8 bits:  784 bytes   (BF16 and F16 with no more bits)
  kU4S32,         // q 0..15, zero point 8:  288 bytes   (Q4_0)
  kU4S32M,        // q 0..15, minima:        320 bytes   (Q4_1, Q4_K)
  kU4S16M,        // q 0..15, minima:        384 bytes   (Q2_K, Q3_K)
  kCodebook4S32,  // d*codebook[q]:          320 bytes   (IQ4_NL, IQ4_XS, MXFP4); scales are float
  kU5S32,         // q 0..31, zero point 16: 352 bytes   (Q5_0)
  kU5S32M,        // q 0..31, minima:        384 bytes   (Q5_1, Q5_K)
  kU6S16,         // q 0..63, zero point 32: 448 bytes   (Q6_K)
  kU8S32,         // q 0..255, zero point 128: 544 bytes (Q8_0)
};
inline constexpr int kPackedKindCount = 13;

// Whether the panel is in k-blocks of 32.
inline constexpr bool IsQuantizedKind(PackedKind kind) {
  return kind >= PackedKind::kI14S32;
}

// Bytes of one k-block of a panel: 32 values of k for quantized kinds, one value of k otherwise.
inline constexpr int64_t PackedBlockBytes(PackedKind kind) {
  constexpr int64_t kBytes[kPackedKindCount] = {64,  32,  32,  1024, 784, 288, 320,
                                                384, 320, 352, 384,  448, 544};
  return kBytes[static_cast<int>(kind)];
}

// Bytes of one panel with rows of k values. REQUIRES: k % 32 == 0 for quantized kinds.
inline constexpr int64_t PackedPanelBytes(PackedKind kind, int64_t k) {
  return PackedBlockBytes(kind) * (IsQuantizedKind(kind) ? k / 32 : k);
}

// The largest multiplier of a group. With it the sum of two groups of unsigned bytes stays in 32
// bits (2 * 16 * 255 * 127 * 2047 < 2^31), and 16 times it in 16 bits.
inline constexpr int kMaxMultiplier = 2047;

// From a block's range to its scale.
inline constexpr float kScaleOfRange = 1.0f / (127.0f * static_cast<float>(kMaxMultiplier));

// Ranges below this are taken for zero: the inverse of a step stays finite.
inline constexpr float kLeastBlockRange = 0x1p-100f;

// A row of quantized activations (DType::kActI8) of k values, k % 32 == 0: k / 32 blocks for
// weights with one d for 32 values, then k / 32 for weights with one d for 16, the same levels in
// both.
//
// The two groups of 16 in a block have steps of their own, but both are whole multiples of one
// scale, so that a product with weights of one d stays an integer over the block:
//   x[i] ~ step[i / 16] * q[i],  step[g] = scale * float(multiplier[g])
// With r_g = max|x| of group g (a NaN counting as the largest) and R = max(r_0, r_1), in floats:
//   scale = R * kScaleOfRange;  multiplier[g] = min(ceil(r_g * (1 / R) * 2047), 2047)
//   q = round-to-nearest-even of x * (1 / step[g]), within -127..127
// R < kLeastBlockRange: all zero. R infinite or NaN: scale, steps and sums NaN, the rest zero.

// Pairs of both groups lie side by side, for instruction sets that multiply pairs of bytes: one
// vector of sums then has both groups'.
struct WholeBlock {
  int8_t pairs[kActivationBlockValues];  // bytes 4s..4s+3: q of values 2s, 2s+1, 16+2s, 16+2s+1
  int16_t multiplier[2];
  float scale;
  float sum;  // scale * float(sum over the block of multiplier * q), for the weights' minima
};
static_assert(sizeof(WholeBlock) == 44);

struct GroupsBlock {
  int8_t q[kActivationBlockValues];
  float step[2];
  float sum[2];  // step * float(sum over the group of q)
};
static_assert(sizeof(GroupsBlock) == 48);

// A row of activations in 16 bits (DType::kActI16) of k values, k % 32 == 0: k / 32 blocks, for
// weights of kI14S32 and kF12S32. 32 products of 14 bits each stay in 32 bits: 32 * 8191^2 < 2^31.
//   R = max|x| (a NaN counting as the largest); scale = R * (1 / 8191)
//   q = round-to-nearest-even of x * (8191 / R)
// R < kLeastBlockRange: all zero. R infinite or NaN: scale NaN, q zero.
struct WideBlock {
  int16_t q[kActivationBlockValues];
  float scale;
};
static_assert(sizeof(WideBlock) == 68);
inline constexpr int kMostWideLevel = 8191;

inline constexpr int64_t kWholeBlockBytes = sizeof(WholeBlock);
inline constexpr int64_t kGroupsBlockBytes = sizeof(GroupsBlock);

// What weights are multiplied with.
enum class ActivationForm : uint8_t {
  kFloat,  // float[k]
  kInt8,   // a row of kActI8
  kInt16,  // a row of kActI16
};

inline constexpr ActivationForm FormFor(PackedKind kind) {
  if (kind == PackedKind::kI14S32 || kind == PackedKind::kF12S32)
    return ActivationForm::kInt16;
  return IsQuantizedKind(kind) ? ActivationForm::kInt8 : ActivationForm::kFloat;
}

inline constexpr int64_t ActivationRowBytes(ActivationForm form, int64_t k) {
  switch (form) {
    case ActivationForm::kInt8:
      return k / kActivationBlockValues * (kWholeBlockBytes + kGroupsBlockBytes);
    case ActivationForm::kInt16:
      return k / kActivationBlockValues * static_cast<int64_t>(sizeof(WideBlock));
    case ActivationForm::kFloat:
      break;
  }
  return k * static_cast<int64_t>(sizeof(float));
}
// From a row's first byte to its GroupsBlocks.
inline constexpr int64_t GroupsBlocksOffset(int64_t k) {
  return k / kActivationBlockValues * kWholeBlockBytes;
}

// One panel times `tokens` activation rows: out[t][r] = sum over k of w[r][k] * x[t][k].
// Quantized kinds, for each block of 32 in ascending k, with the exact integer dot product i_g of
// group g and m as above (zero point included):
//   one d for 32: acc = fma(d * scale, float(multiplier[0] * i_0 + multiplier[1] * i_1), acc);
//                 acc = fma(m, sum, acc)
//   one d for 16: acc = fma(d_g * step[g], float(i_g), acc); acc = fma(m_g, sum[g], acc), g = 0, 1
// kCodebook4S32 counts as bytes codebook[q] + 128 with zero point 128. kI14S32 and kF12S32, with
// the exact dot product i of a block: acc = fma(d * scale, float(i), acc). Float kinds:
//   acc = fma(w, x, acc) in ascending k.
struct GemmArgs {
  const std::byte* panel;        // one packed panel, PackedPanelBytes(kind, k)
  int64_t k;                     // values in a row
  const std::byte* activations;  // [tokens] rows of FormFor(kind)
  int64_t activation_stride;     // bytes from one activation row to the next
  int64_t tokens;                // >= 1
  const int8_t* codebook;        // [16], for kCodebook4S32 only
  float* out;                    // [tokens, 16]
  int64_t out_stride;            // floats from one output row to the next, >= 16
};
using GemmFn = void (*)(const GemmArgs& args);

// The least range that one scale for a whole row covers (quant/activation_round.h).
inline constexpr float kLeastTokenRange = 1e-5f;

// x [32] floats to block `index` of a kActI8 or kActI16 row of k values.
using QuantizeBlockFn = void (*)(const float* x, std::byte* row, int64_t k, int64_t index);
// x [k] floats to one such row, each block as by QuantizeBlockFn.
using QuantizeRowFn = void (*)(const float* x, int64_t k, std::byte* out);
// The same with one scale for the whole row, repeated in every block, and multipliers of 1
// (quant/activation_round.h):
//   r = max(max|x|, 1e-5), a NaN counting as the largest; scale = r / 127
//   q = round-to-nearest-even of x * (127 / r), within -127..127
// With weights that repeat one scale in every block this is W8A8, with smaller groups W4A8.

// out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; one group of n values. out may be x.
// The squares are added by fma in 16 lanes (i mod 16); then the upper half of the lanes is added to
// the lower one until one is left. The root's inverse is rounded first, then x * inverse * weight.
using RmsNormFn = void (*)(const float* x, const float* weight, int64_t n, float eps, float* out);

// Elementwise over n values; out may be an input.
using BinaryFn = void (*)(const float* a, const float* b, int64_t n, float* out);
using UnaryFn = void (*)(const float* x, int64_t n, float* out);
using ScaleFn = void (*)(const float* x, float factor, int64_t n, float* out);

// Rotates pairs of one head in place: (a, b) -> (a*cos - b*sin, a*sin + b*cos), pair p using
// cos[p], sin[p], p < pairs. Interleaved: a = x[2p], b = x[2p+1]. Half: a = x[p], b = x[p+pairs].
using RopeFn = void (*)(float* x, const float* cos, const float* sin, int64_t pairs);

// Writes one token into a block of a float type (hal/kv_block.h). Conversion to 16 bits rounds to
// nearest even.
struct KvStoreArgs {
  const float* key;    // [head_dim]
  const float* value;  // [head_dim]
  int64_t head_dim;
  int64_t slot;            // token within the block
  std::byte* key_block;    // this layer's and head's keys of the block
  std::byte* value_block;  // this layer's and head's values of the block
};
using KvStoreFn = void (*)(const KvStoreArgs& args);

// Writes a whole block of a packed type from the same block in f16. A group that has an infinity or
// a NaN reads back as NaN. The bits are the same in every set (hal/cpu/kv_seal.h).
struct KvSealArgs {
  const std::byte* f16_keys;    // f16 [head_dim][kKvBlockTokens]
  const std::byte* f16_values;  // f16 [kKvBlockTokens][head_dim]
  int64_t head_dim;
  std::byte* key_block;
  std::byte* value_block;
};
using KvSealFn = void (*)(const KvSealArgs& args);

// What an online softmax carries from key to key.
struct SoftmaxState {
  float max;  // m below
  float sum;  // l below
};

// One token's query heads that share one KV head, over keys [begin, end) of its sequence:
//   out[h] = sum_j softmax_j(cap(scale * q[h].k_j)) v_j,  cap(s) = softcap * tanh(s / softcap) or s
// by online softmax, block after block in ascending order, scores kept for one block only:
//   m' = max(m, max_j s_j); c = exp(m - m'); l = l*c + sum_j exp(s_j - m'); o = o*c + sum_j p_j v_j
// dot products accumulate over ascending d, value sums over ascending j, all by fma in float. The
// 32 exp of a block are halved as in RmsNormFn, unseen keys counting 0; l = fma(l, c, that sum).
//
// Over a packed block, with codes as integers, the header's scale as s, its term z that is added to
// a code, and the limit L of integers (all in hal/cpu/packed_kv.h):
//   q'_d = q_d * s_d;  M = max |q'_d|;  i_d = round(q'_d * (L / M)), to nearest even
//   dot_j = fma(float(sum_d i_d code_dj), M * (1 / L), Z), Z = sum_d q'_d z_d (by fma in 8 lanes,
//   d mod 8, then halved)
//   p'_j = p_j * s_j for each group of d;  M and i_j likewise
//   o_d = fma(float(sum_j i_j code_jd), M * (1 / L), fma(o_d, c, Z)), Z = sum_j p'_j z_j
//   (products halved)
// Sums of integers are exact. Over floats, dots start at 0 and o_d at o_d * c. Packed blocks are
// whole.
struct AttentionArgs {
  const float* query;          // [heads, head_dim], heads consecutive
  int64_t heads;               // query heads of this KV head, >= 1
  int64_t head_dim;            // a multiple of 8, at most 256
  const std::byte* keys;       // this layer's and head's keys in block 0 of the pool
  const std::byte* values;     // same for values
  int64_t block_stride;        // bytes from a block to the next one in the pool
  const int32_t* block_table;  // [(end + 31) / 32] pool block of each of the sequence's blocks
  int64_t begin;               // first key seen (sliding window), 0 <= begin < end
  int64_t end;                 // one past the last key seen
  float scale;
  float softcap;  // 0: none
  float* out;     // [heads, head_dim]
  // Null, or [heads]: `out` is then left as o, not divided by l, and m and l are stored here, so
  // that spans of a long context can be computed apart and joined.
  SoftmaxState* partial = nullptr;
};
using AttentionFn = void (*)(const AttentionArgs& args);

struct KernelSet {
  const char* name;
  GemmFn gemm[kPackedKindCount];
  QuantizeBlockFn quantize_block;
  QuantizeRowFn quantize_row;            // a step for each group of 16
  QuantizeRowFn quantize_row_per_token;  // one scale for the row
  QuantizeBlockFn quantize_wide_block;   // to kActI16
  QuantizeRowFn quantize_wide_row;
  RmsNormFn rms_norm;
  BinaryFn add;
  BinaryFn mul;
  ScaleFn scale;
  UnaryFn silu;       // x / (1 + exp(-x))
  UnaryFn gelu;       // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  BinaryFn silu_mul;  // silu(a) * b, the same floats as silu then mul
  BinaryFn gelu_mul;  // gelu(a) * b
  RopeFn rope_interleaved;
  RopeFn rope_half;
  KvStoreFn kv_store[kKvFloatTypeCount];
  KvSealFn kv_seal[kKvTypeCount];  // null for float types
  AttentionFn attention[kKvTypeCount];
};

}  // namespace tenon

#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"
#include "hal/cpu/panel_layout.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::neon {
namespace {

// A group of 16 k of a panel: vectors of 4 rows x 4 k, [4 steps][4 quarters of the rows].
constexpr int kSteps = 4;
constexpr int kQuarters = 4;

// SDOT multiplies signed bytes: unsigned weights are moved down by 128 (a codebook's values are not
// moved up), and 128 times the sum of the activations is added. Nibbles are in range as they are.
constexpr int kByteBias = 128;

inline uint8x16_t LoadVector(const std::byte* at) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(at));
}

// Bits above the nibble of step `step` (0..7), 16 bytes from `at` on; vshlq shifts by signed
// counts.
template <PackedKind kKind>
inline uint8x16_t HighBits(const std::byte* block, int step, int64_t at) {
  const HighBitsPlace place = PlaceOfHighBits(LayoutOf(kKind).high_bits, step);
  const uint8x16_t bits =
      vshlq_u8(LoadVector(block + place.offset + at), vdupq_n_s8(static_cast<int8_t>(place.shift)));
  return vandq_u8(bits, vdupq_n_u8(place.mask));
}

// Group `half` (0, 1) of a k-block as signed bytes.
template <PackedKind kKind>
inline void LoadGroup(const std::byte* block, int64_t half, int8x16_t codebook,
                      int8x16_t weights[kSteps][kQuarters]) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  for (int s = 0; s < kSteps; ++s) {
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      const int64_t at = s * 64 + quarter * 16;
      if constexpr (kLayout.nibbles) {
        const uint8x16_t pairs = LoadVector(block + at);
        uint8x16_t q = half == 0 ? vandq_u8(pairs, vdupq_n_u8(15)) : vshrq_n_u8(pairs, 4);
        if constexpr (kLayout.high_bits > 0)
          q = vorrq_u8(q,
                       HighBits<kKind>(block, static_cast<int>(half) * kSteps + s, quarter * 16));
        weights[s][quarter] = kLayout.codebook ? vqtbl1q_s8(codebook, q) : vreinterpretq_s8_u8(q);
      } else {
        const uint8x16_t q = LoadVector(block + half * 256 + at);
        weights[s][quarter] = vreinterpretq_s8_u8(veorq_u8(q, vdupq_n_u8(kByteBias)));
      }
    }
  }
}

// The d and m of 16 rows for one group.
struct GroupScales {
  float32x4_t d[kQuarters];
  float32x4_t m[kQuarters];
};

template <PackedKind kKind>
inline GroupScales LoadScales(const std::byte* block, int64_t half) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  const std::byte* scales = block + kLayout.scales_offset + half * kLayout.group_stride;
  GroupScales result;
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    result.d[quarter] =
        kLayout.codebook ? LoadFloats(scales + quarter * 16) : LoadHalfs(scales + quarter * 8);
    if constexpr (kLayout.stored_minima)
      result.m[quarter] = LoadHalfs(scales + kLayout.minima_offset + quarter * 8);
    else
      result.m[quarter] = vmulq_n_f32(result.d[quarter], static_cast<float>(-kLayout.zero_point));
  }
  return result;
}

// What the exact dot products start from: the correction of the bias.
template <PackedKind kKind>
inline int32x4_t StartOfDots(int8x16_t activations) {
  if constexpr (LayoutOf(kKind).nibbles && !LayoutOf(kKind).codebook)
    return vdupq_n_s32(0);
  else
    return vdupq_n_s32(kByteBias * vaddlvq_s8(activations));
}

// A group's exact dot products with 16 rows.
struct Dots {
  int32x4_t of[kQuarters];
};

template <PackedKind kKind>
inline Dots MultiplyGroup(const int8x16_t weights[kSteps][kQuarters], int8x16_t activations) {
  const int32x4_t start = StartOfDots<kKind>(activations);
  Dots dots;
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    int32x4_t dot = vdotq_laneq_s32(start, weights[0][quarter], activations, 0);
    dot = vdotq_laneq_s32(dot, weights[1][quarter], activations, 1);
    dot = vdotq_laneq_s32(dot, weights[2][quarter], activations, 2);
    dots.of[quarter] = vdotq_laneq_s32(dot, weights[3][quarter], activations, 3);
  }
  return dots;
}

// acc = fma(d * step, product, acc); acc = fma(m, sum, acc).
inline void AddTerms(const GroupScales& scales, float step, const Dots& products, float sum,
                     float32x4_t acc[kQuarters]) {
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    const float32x4_t factor = vmulq_n_f32(scales.d[quarter], step);
    acc[quarter] = vfmaq_f32(acc[quarter], factor, vcvtq_f32_s32(products.of[quarter]));
    acc[quarter] = vfmaq_n_f32(acc[quarter], scales.m[quarter], sum);
  }
}

// A k-block of a panel: [2 groups][steps][quarters], and the scales of both groups.
struct Block {
  int8x16_t weights[2][kSteps][kQuarters];
  GroupScales scales[2];  // the second is used only where the groups' differ
};

// One block's contribution to one token's 16 sums.
template <PackedKind kKind>
inline void AddBlock(const Block& block, const WholeBlock& whole, const GroupsBlock& groups,
                     float32x4_t acc[kQuarters]) {
  Dots first = MultiplyGroup<kKind>(block.weights[0], vld1q_s8(groups.q));
  const Dots second = MultiplyGroup<kKind>(block.weights[1], vld1q_s8(groups.q + kActivationGroup));
  if constexpr (LayoutOf(kKind).group_scales) {
    AddTerms(block.scales[0], groups.step[0], first, groups.sum[0], acc);
    AddTerms(block.scales[1], groups.step[1], second, groups.sum[1], acc);
  } else {
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      const int32x4_t product = vmulq_n_s32(first.of[quarter], whole.multiplier[0]);
      first.of[quarter] = vmlaq_n_s32(product, second.of[quarter], whole.multiplier[1]);
    }
    AddTerms(block.scales[0], whole.scale, first, whole.sum, acc);
  }
}

template <PackedKind kKind>
inline void LoadBlock(const std::byte* packed, int8x16_t codebook, Block* block) {
  LoadGroup<kKind>(packed, 0, codebook, block->weights[0]);
  LoadGroup<kKind>(packed, 1, codebook, block->weights[1]);
  block->scales[0] = LoadScales<kKind>(packed, 0);
  if constexpr (LayoutOf(kKind).group_scales)
    block->scales[1] = LoadScales<kKind>(packed, 1);
}

template <PackedKind kKind, int kTokens>
void GemmTokens(const GemmArgs& args, const std::byte* activations, float* out) {
  int8x16_t codebook = vdupq_n_s8(0);
  if constexpr (LayoutOf(kKind).codebook)
    codebook = vld1q_s8(args.codebook);
  float32x4_t acc[kTokens][kQuarters];
  for (int t = 0; t < kTokens; ++t) {
    for (float32x4_t& sum : acc[t])
      sum = vdupq_n_f32(0.0f);
  }
  const std::byte* packed = args.panel;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b) {
    Block block;
    LoadBlock<kKind>(packed, codebook, &block);
    packed += LayoutOf(kKind).block_bytes;
    for (int t = 0; t < kTokens; ++t) {
      const std::byte* row = activations + t * args.activation_stride;
      const auto* groups = reinterpret_cast<const GroupsBlock*>(row + GroupsBlocksOffset(args.k));
      AddBlock<kKind>(block, reinterpret_cast<const WholeBlock*>(row)[b], groups[b], acc[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      vst1q_f32(out + t * args.out_stride + quarter * kLanes, acc[t][quarter]);
  }
}

template <PackedKind kKind>
void Gemm(const GemmArgs& args) {
  // Four tokens' sums take 16 of the 32 registers.
  int64_t token = RunTiles(args, 0, 4, GemmTokens<kKind, 4>);
  token = RunTiles(args, token, 2, GemmTokens<kKind, 2>);
  RunTiles(args, token, 1, GemmTokens<kKind, 1>);
}

}  // namespace

void GemmU4S32(const GemmArgs& args) {
  Gemm<PackedKind::kU4S32>(args);
}
void GemmU4S32M(const GemmArgs& args) {
  Gemm<PackedKind::kU4S32M>(args);
}
void GemmU4S16M(const GemmArgs& args) {
  Gemm<PackedKind::kU4S16M>(args);
}
void GemmCodebook4S32(const GemmArgs& args) {
  Gemm<PackedKind::kCodebook4S32>(args);
}
void GemmU5S32(const GemmArgs& args) {
  Gemm<PackedKind::kU5S32>(args);
}
void GemmU5S32M(const GemmArgs& args) {
  Gemm<PackedKind::kU5S32M>(args);
}
void GemmU6S16(const GemmArgs& args) {
  Gemm<PackedKind::kU6S16>(args);
}
void GemmU8S32(const GemmArgs& args) {
  Gemm<PackedKind::kU8S32>(args);
}

}  // namespace tenon::neon

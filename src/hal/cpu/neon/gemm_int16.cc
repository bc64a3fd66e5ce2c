// Panels of weights in 14 bits times activations in as many (PackedKind::kI14S32).
#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::neon {
namespace {

constexpr int kQuarters = 4;  // of a panel's 16 rows
constexpr int kPairs = 16;    // of k in a block
constexpr int64_t kBlockBytes = PackedBlockBytes(PackedKind::kI14S32);

// Two k of four rows, apart.
inline int16x4x2_t LoadPair(const std::byte* block, int pair, int quarter) {
  return vld2_s16(reinterpret_cast<const int16_t*>(block + pair * 64 + quarter * 16));
}

// d of four rows, whose exponents are in the lowest two bits of the words of k 0..3.
inline float32x4_t LoadScales(const std::byte* block, int quarter) {
  const int16x4x2_t low = LoadPair(block, 0, quarter);
  const int16x4x2_t high = LoadPair(block, 1, quarter);
  const int16x4_t mask = vdup_n_s16(3);
  int16x4_t exponents = vand_s16(low.val[0], mask);
  exponents = vorr_s16(exponents, vshl_n_s16(vand_s16(low.val[1], mask), 2));
  exponents = vorr_s16(exponents, vshl_n_s16(vand_s16(high.val[0], mask), 4));
  exponents = vorr_s16(exponents, vshl_n_s16(vand_s16(high.val[1], mask), 6));
  const uint32x4_t wide = vmovl_u16(vreinterpret_u16_s16(exponents));
  return vreinterpretq_f32_u32(vshlq_n_u32(wide, 23));
}

// A quarter of a block's rows times one token: the exact dot products.
template <int kTokens>
inline void MultiplyQuarter(const std::byte* block, int quarter, const WideBlock* const* x,
                            int32x4_t* products) {
  for (int t = 0; t < kTokens; ++t)
    products[t] = vdupq_n_s32(0);
  for (int pair = 0; pair < kPairs; ++pair) {
    int16x4x2_t weights = LoadPair(block, pair, quarter);
    if (pair < 2) {
      weights.val[0] = vshr_n_s16(weights.val[0], 2);
      weights.val[1] = vshr_n_s16(weights.val[1], 2);
    }
    for (int t = 0; t < kTokens; ++t) {
      products[t] = vmlal_n_s16(products[t], weights.val[0], x[t]->q[2 * pair]);
      products[t] = vmlal_n_s16(products[t], weights.val[1], x[t]->q[2 * pair + 1]);
    }
  }
}

template <int kTokens>
void GemmTokens(const GemmArgs& args, const std::byte* activations, float* out) {
  float32x4_t acc[kTokens][kQuarters];
  for (int t = 0; t < kTokens; ++t) {
    for (float32x4_t& sum : acc[t])
      sum = vdupq_n_f32(0.0f);
  }
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b, block += kBlockBytes) {
    const WideBlock* x[kTokens];
    for (int t = 0; t < kTokens; ++t)
      x[t] = reinterpret_cast<const WideBlock*>(activations + t * args.activation_stride) + b;
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      int32x4_t products[kTokens];
      MultiplyQuarter<kTokens>(block, quarter, x, products);
      const float32x4_t d = LoadScales(block, quarter);
      for (int t = 0; t < kTokens; ++t) {
        const float32x4_t factor = vmulq_n_f32(d, x[t]->scale);
        acc[t][quarter] = vfmaq_f32(acc[t][quarter], factor, vcvtq_f32_s32(products[t]));
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      vst1q_f32(out + t * args.out_stride + quarter * kLanes, acc[t][quarter]);
  }
}

}  // namespace

void GemmI14S32(const GemmArgs& args) {
  int64_t token = RunTiles(args, 0, 8, GemmTokens<8>);
  token = RunTiles(args, token, 4, GemmTokens<4>);
  RunTiles(args, token, 1, GemmTokens<1>);
}

}  // namespace tenon::neon

// Panels of weights in 14 bits times activations in as many (PackedKind::kI14S32 and kF12S32).
#include "hal/cpu/f12_panel.h"
#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::neon {
namespace {

constexpr int kQuarters = 4;  // of a panel's 16 rows
constexpr int kPairs = 16;    // of k in a block
constexpr int64_t kVectorBytes = 64;
constexpr int64_t kQuarterBytes = 16;

// A float whose exponent field is the integer, and no other bit.
inline float32x4_t PowersOfTwo(uint16x4_t fields) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(fields), 23));
}

inline int16x4x2_t LoadPair(const std::byte* block, int pair, int quarter) {
  return vld2_s16(
      reinterpret_cast<const int16_t*>(block + pair * kVectorBytes + quarter * kQuarterBytes));
}

// The forms of a block of weights: Words(block, pair, quarter) are two k of four rows, apart;
// Scales d.
struct I14 {
  static constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kI14S32);

  // Without the exponents' bits, which are in the words of k 0..3.
  static int16x4x2_t Words(const std::byte* block, int pair, int quarter) {
    int16x4x2_t words = LoadPair(block, pair, quarter);
    if (pair < 2) {
      words.val[0] = vshr_n_s16(words.val[0], 2);
      words.val[1] = vshr_n_s16(words.val[1], 2);
    }
    return words;
  }
  static float32x4_t Scales(const std::byte* block, int quarter) {
    const int16x4x2_t low = LoadPair(block, 0, quarter);
    const int16x4x2_t high = LoadPair(block, 1, quarter);
    const int16x4_t mask = vdup_n_s16(3);
    int16x4_t exponents = vand_s16(low.val[0], mask);
    exponents = vorr_s16(exponents, vshl_n_s16(vand_s16(low.val[1], mask), 2));
    exponents = vorr_s16(exponents, vshl_n_s16(vand_s16(high.val[0], mask), 4));
    exponents = vorr_s16(exponents, vshl_n_s16(vand_s16(high.val[1], mask), 6));
    return PowersOfTwo(vreinterpret_u16_s16(exponents));
  }
};

constexpr int8_t kPowers[16] = {1, 2, 4, 8, 16, 32, 0, 0, -1, -2, -4, -8, -16, -32, 0, 0};

struct F12 {
  static constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kF12S32);

  // Significands times their powers of two and signs, of the even or odd bytes.
  static int16x4x2_t Words(const std::byte* block, int pair, int quarter) {
    const int v = pair / 2;
    const auto* at = reinterpret_cast<const uint8_t*>(block + quarter * kQuarterBytes);
    const uint16x8_t significands = vreinterpretq_u16_u8(vld1q_u8(at + v * kVectorBytes));
    const uint8x16_t nibbles = vld1q_u8(at + kF12Nibbles + v / 2 * kVectorBytes);
    const uint8x16_t codes =
        v % 2 == 0 ? vandq_u8(nibbles, vdupq_n_u8(15)) : vshrq_n_u8(nibbles, 4);
    const int16x8_t powers = vreinterpretq_s16_s8(vqtbl1q_s8(vld1q_s8(kPowers), codes));
    const int16x8_t words =
        pair % 2 == 0 ? vmulq_s16(vreinterpretq_s16_u16(vandq_u16(significands, vdupq_n_u16(0xff))),
                                  vshrq_n_s16(vshlq_n_s16(powers, 8), 8))
                      : vmulq_s16(vreinterpretq_s16_u16(vshrq_n_u16(significands, 8)),
                                  vshrq_n_s16(powers, 8));
    return {{vget_low_s16(vuzp1q_s16(words, words)), vget_low_s16(vuzp2q_s16(words, words))}};
  }
  static float32x4_t Scales(const std::byte* block, int quarter) {
    uint32_t bytes;
    __builtin_memcpy(&bytes, block + kF12Exponents + quarter * 4, sizeof(bytes));
    return PowersOfTwo(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
  }
};

// A block of F12 for many tokens.
struct Unpacked {
  static constexpr int64_t kBytes = kUnpackedBlockBytes;

  static int16x4x2_t Words(const std::byte* block, int pair, int quarter) {
    return LoadPair(block, pair, quarter);
  }
  static float32x4_t Scales(const std::byte* block, int quarter) {
    return LoadFloats(block + kUnpackedScales + quarter * kQuarterBytes);
  }
};

// A quarter of a block's rows times one token: the exact dot products.
template <class Form, int kTokens>
inline void MultiplyQuarter(const std::byte* block, int quarter, const WideBlock* const* x,
                            int32x4_t* products) {
  for (int t = 0; t < kTokens; ++t)
    products[t] = vdupq_n_s32(0);
  for (int pair = 0; pair < kPairs; ++pair) {
    const int16x4x2_t weights = Form::Words(block, pair, quarter);
    for (int t = 0; t < kTokens; ++t) {
      products[t] = vmlal_n_s16(products[t], weights.val[0], x[t]->q[2 * pair]);
      products[t] = vmlal_n_s16(products[t], weights.val[1], x[t]->q[2 * pair + 1]);
    }
  }
}

template <class Form, int kTokens>
void GemmTokens(const GemmArgs& args, const Stretch& stretch, const std::byte* activations,
                float* out) {
  float32x4_t acc[kTokens][kQuarters];
  for (int t = 0; t < kTokens; ++t) {
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      const float* sums = out + t * args.out_stride + quarter * kLanes;
      acc[t][quarter] = stretch.first == 0 ? vdupq_n_f32(0.0f) : vld1q_f32(sums);
    }
  }
  const std::byte* block = stretch.blocks;
  for (int64_t b = 0; b < stretch.count; ++b, block += Form::kBytes) {
    const WideBlock* x[kTokens];
    for (int t = 0; t < kTokens; ++t)
      x[t] = reinterpret_cast<const WideBlock*>(activations + t * args.activation_stride) +
             stretch.first + b;
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      int32x4_t products[kTokens];
      MultiplyQuarter<Form, kTokens>(block, quarter, x, products);
      const float32x4_t d = Form::Scales(block, quarter);
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

template <class Form>
void MultiplyStretch(const GemmArgs& args, const Stretch& stretch) {
  RunTilesOf8(args,
              [&]<int kTokens>(const GemmArgs& all, const std::byte* activations, float* out) {
                GemmTokens<Form, kTokens>(all, stretch, activations, out);
              });
}

void Unpack(const std::byte* block, std::byte* out) {
  for (int pair = 0; pair < kPairs; ++pair) {
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      vst2_s16(reinterpret_cast<int16_t*>(out + pair * kVectorBytes + quarter * kQuarterBytes),
               F12::Words(block, pair, quarter));
  }
  for (int quarter = 0; quarter < kQuarters; ++quarter)
    vst1q_f32(reinterpret_cast<float*>(out + kUnpackedScales) + quarter * kLanes,
              F12::Scales(block, quarter));
}

// Tiles unpack the weights for themselves up to here.
constexpr int64_t kFewTokens = 4;

}  // namespace

void GemmI14S32(const GemmArgs& args) {
  MultiplyStretch<I14>(args, WholePanel(args));
}

void GemmF12S32(const GemmArgs& args) {
  if (args.tokens <= kFewTokens)
    return MultiplyStretch<F12>(args, WholePanel(args));
  RunUnpacked(args, Unpack,
              [&](const Stretch& stretch) { MultiplyStretch<Unpacked>(args, stretch); });
}

}  // namespace tenon::neon

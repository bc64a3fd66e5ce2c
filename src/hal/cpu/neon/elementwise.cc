#include "hal/cpu/activation_steps.h"
#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"

namespace tenon::neon {
namespace {

// A tail of `count` < 4 floats, the missing lanes zero.
inline float32x4_t LoadTail(const float* x, int64_t count) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i)
    lanes[i] = x[i];
  return vld1q_f32(lanes);
}

inline void StoreTail(float32x4_t values, int64_t count, float* out) {
  float lanes[kLanes];
  vst1q_f32(lanes, values);
  for (int64_t i = 0; i < count; ++i)
    out[i] = lanes[i];
}

inline float32x4_t SiluVector(float32x4_t x) {
  return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), Exp(vnegq_f32(x))));
}

inline float32x4_t GeluVector(float32x4_t x) {
  const float32x4_t slope =
      vfmaq_f32(vdupq_n_f32(kGeluLinear), vmulq_f32(x, x), vdupq_n_f32(kGeluCubic));
  return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), Exp(vmulq_f32(x, slope))));
}

// out[i] = fn(x[i]).
template <class Fn>
inline void Map(const float* x, int64_t n, float* out, Fn fn) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    vst1q_f32(out + i, fn(vld1q_f32(x + i)));
  if (i < n)
    StoreTail(fn(LoadTail(x + i, n - i)), n - i, out + i);
}

// out[i] = fn(a[i], b[i]).
template <class Fn>
inline void Zip(const float* a, const float* b, int64_t n, float* out, Fn fn) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    vst1q_f32(out + i, fn(vld1q_f32(a + i), vld1q_f32(b + i)));
  if (i < n)
    StoreTail(fn(LoadTail(a + i, n - i), LoadTail(b + i, n - i)), n - i, out + i);
}

// 16 lanes of a sum.
struct Group {
  float32x4_t part[4];
};

// The bits of the largest magnitude of n values, n % 4 == 0, and of `least`. Magnitudes order as
// their bits do, NaN above all.
inline uint32_t LargestMagnitude(const float* x, int64_t n, float least) {
  uint32x4_t largest = vreinterpretq_u32_f32(vdupq_n_f32(least));
  for (int64_t i = 0; i < n; i += kLanes) {
    const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
    largest = vmaxq_u32(largest, vandq_u32(bits, vdupq_n_u32(0x7fffffffu)));
  }
  return vmaxvq_u32(largest);
}

// Nearest integers within -127..127; a NaN becomes -127.
inline int32x4_t NearestLevels(float32x4_t ratio) {
  const float32x4_t lowest = vdupq_n_f32(-127.0f);
  const float32x4_t highest = vdupq_n_f32(127.0f);
  const float32x4_t low = vbslq_f32(vcgtq_f32(ratio, lowest), ratio, lowest);
  return vcvtnq_s32_f32(vbslq_f32(vcltq_f32(low, highest), low, highest));
}

inline int8x16_t NarrowToBytes(const int32x4_t q[4]) {
  const int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
  return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

// Rounds a group to levels; their sum.
inline int32_t RoundGroup(const float* x, float inverse_step, int8_t* q) {
  int32x4_t levels[4];
  for (int part = 0; part < 4; ++part)
    levels[part] = NearestLevels(vmulq_n_f32(vld1q_f32(x + part * kLanes), inverse_step));
  const int8x16_t bytes = NarrowToBytes(levels);
  vst1q_s8(q, bytes);
  return vaddlvq_s8(bytes);
}

// Both groups' levels by the inverses of their steps, in both orders, and the sums.
inline void RoundBlock(const float* x, float first_inverse, float second_inverse,
                       const ActivationBlock& block) {
  RoundGroups(x, first_inverse, second_inverse, block, RoundGroup);
  const int8_t* q = block.groups->q;
  const int16x8_t first = vreinterpretq_s16_s8(vld1q_s8(q));
  const int16x8_t second = vreinterpretq_s16_s8(vld1q_s8(q + kActivationGroup));
  vst1q_s8(block.whole->pairs, vreinterpretq_s8_s16(vzip1q_s16(first, second)));
  vst1q_s8(block.whole->pairs + kActivationGroup, vreinterpretq_s8_s16(vzip2q_s16(first, second)));
}

// Sum of squares: 16 lanes by i mod 16, then the upper half added to the lower one, four times.
inline float SumOfSquares(const float* x, int64_t n) {
  Group lanes;
  for (float32x4_t& part : lanes.part)
    part = vdupq_n_f32(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int part = 0; part < 4; ++part) {
      const float32x4_t values = vld1q_f32(x + i + part * kLanes);
      lanes.part[part] = vfmaq_f32(lanes.part[part], values, values);
    }
  }
  for (int part = 0; i < n; ++part, i += kLanes) {
    const int64_t count = n - i < kLanes ? n - i : kLanes;
    const float32x4_t values = LoadTail(x + i, count);
    lanes.part[part] = vfmaq_f32(lanes.part[part], values, values);
  }
  const float32x4_t low = vaddq_f32(lanes.part[0], lanes.part[2]);
  const float32x4_t high = vaddq_f32(lanes.part[1], lanes.part[3]);
  return HalvingSum(vaddq_f32(low, high));
}

void RoundWide(const float* x, float inverse, int16_t* q) {
  for (int64_t i = 0; i < kActivationBlockValues; i += kLanes) {
    const int32x4_t levels = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), inverse));
    vst1_s16(q + i, vmovn_s32(levels));
  }
}

}  // namespace

void QuantizeWideBlock(const float* x, std::byte* row, int64_t, int64_t index) {
  QuantizeWide(x, LargestMagnitude(x, kActivationBlockValues, 0.0f), WideBlockAt(row, index),
               RoundWide);
}

void QuantizeWideRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeWideBlock);
}

void QuantizeBlock(const float* x, std::byte* row, int64_t k, int64_t index) {
  const auto magnitude = [](const float* group) {
    return LargestMagnitude(group, kActivationGroup, 0.0f);
  };
  QuantizeByGroups(x, BlockAt(row, k, index), magnitude, RoundBlock);
}

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeBlock);
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  const auto range = __builtin_bit_cast(float, LargestMagnitude(x, k, kLeastTokenRange));
  RoundRow(x, k, range, out, RoundBlock);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  Zip(x, weight, n, out, [inverse](float32x4_t values, float32x4_t weights) {
    return vmulq_f32(vmulq_n_f32(values, inverse), weights);
  });
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); });
}

void Mul(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); });
}

void Scale(const float* x, float factor, int64_t n, float* out) {
  Map(x, n, out, [factor](float32x4_t values) { return vmulq_n_f32(values, factor); });
}

void Silu(const float* x, int64_t n, float* out) {
  Map(x, n, out, SiluVector);
}

void Gelu(const float* x, int64_t n, float* out) {
  Map(x, n, out, GeluVector);
}

void SiluMul(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](float32x4_t x, float32x4_t y) { return vmulq_f32(SiluVector(x), y); });
}

void GeluMul(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](float32x4_t x, float32x4_t y) { return vmulq_f32(GeluVector(x), y); });
}

// A rotation rounds each product and then the sum: no fused operation here.
void RopeInterleaved(float* x, const float* cos, const float* sin, int64_t pairs) {
  int64_t p = 0;
  for (; p + kLanes <= pairs; p += kLanes) {
    const float32x4_t c = vld1q_f32(cos + p);
    const float32x4_t s = vld1q_f32(sin + p);
    const float32x4x2_t ab = vld2q_f32(x + 2 * p);
    float32x4x2_t rotated;
    rotated.val[0] = vsubq_f32(vmulq_f32(ab.val[0], c), vmulq_f32(ab.val[1], s));
    rotated.val[1] = vaddq_f32(vmulq_f32(ab.val[0], s), vmulq_f32(ab.val[1], c));
    vst2q_f32(x + 2 * p, rotated);
  }
  for (; p < pairs; ++p) {
    const float a = x[2 * p];
    const float b = x[2 * p + 1];
    x[2 * p] = a * cos[p] - b * sin[p];
    x[2 * p + 1] = a * sin[p] + b * cos[p];
  }
}

void RopeHalf(float* x, const float* cos, const float* sin, int64_t pairs) {
  int64_t p = 0;
  for (; p + kLanes <= pairs; p += kLanes) {
    const float32x4_t c = vld1q_f32(cos + p);
    const float32x4_t s = vld1q_f32(sin + p);
    const float32x4_t a = vld1q_f32(x + p);
    const float32x4_t b = vld1q_f32(x + p + pairs);
    vst1q_f32(x + p, vsubq_f32(vmulq_f32(a, c), vmulq_f32(b, s)));
    vst1q_f32(x + p + pairs, vaddq_f32(vmulq_f32(a, s), vmulq_f32(b, c)));
  }
  for (; p < pairs; ++p) {
    const float a = x[p];
    const float b = x[p + pairs];
    x[p] = a * cos[p] - b * sin[p];
    x[p + pairs] = a * sin[p] + b * cos[p];
  }
}

}  // namespace tenon::neon

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

// 16 values: one group of activations, or 16 lanes of a sum.
struct Group {
  float32x4_t part[4];
};

// Magnitudes order as their bits do, NaN above all.
inline float MaxAbs(const Group& x) {
  uint32x4_t largest = vdupq_n_u32(0);
  for (const float32x4_t part : x.part) {
    const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(part), vdupq_n_u32(0x7fffffffu));
    largest = vmaxq_u32(largest, bits);
  }
  return __builtin_bit_cast(float, vmaxvq_u32(largest));
}

// Nearest integers within -127..127; a NaN becomes -127.
inline int32x4_t NearestLevels(float32x4_t ratio) {
  const float32x4_t lowest = vdupq_n_f32(-127.0f);
  const float32x4_t highest = vdupq_n_f32(127.0f);
  const float32x4_t low = vbslq_f32(vcgtq_f32(ratio, lowest), ratio, lowest);
  return vcvtnq_s32_f32(vbslq_f32(vcltq_f32(low, highest), low, highest));
}

inline int32x4_t QuantizeVector(float32x4_t x, float scale) {
  if (scale == 0.0f)
    return vdupq_n_s32(0);
  return NearestLevels(vdivq_f32(x, vdupq_n_f32(scale)));
}

inline int8x16_t NarrowToBytes(const int32x4_t q[4]) {
  const int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
  return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
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

}  // namespace

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  for (int64_t g = 0; g < k / kActivationGroup; ++g) {
    Group group;
    for (int part = 0; part < 4; ++part)
      group.part[part] = vld1q_f32(x + g * kActivationGroup + part * kLanes);
    const float scale = MaxAbs(group) / 127.0f;
    int32x4_t q[4];
    for (int part = 0; part < 4; ++part)
      q[part] = QuantizeVector(group.part[part], scale);
    const int8x16_t bytes = NarrowToBytes(q);
    const float sum = scale * static_cast<float>(vaddlvq_s8(bytes));
    vst1q_s8(reinterpret_cast<int8_t*>(out + g * kActivationGroup), bytes);
    __builtin_memcpy(out + ActivationScaleOffset(k) + g * 4, &scale, 4);
    __builtin_memcpy(out + ActivationSumOffset(k) + g * 4, &sum, 4);
  }
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7fffffffu);
  uint32x4_t largest = vreinterpretq_u32_f32(vdupq_n_f32(kLeastTokenRange));
  for (int64_t i = 0; i < k; i += kLanes)
    largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), magnitude));
  const auto range = __builtin_bit_cast(float, vmaxvq_u32(largest));
  const float scale = range / 127.0f;
  const float inverse = 127.0f / range;
  for (int64_t g = 0; g < k / kActivationGroup; ++g) {
    int32x4_t q[4];
    for (int part = 0; part < 4; ++part) {
      const float32x4_t values = vld1q_f32(x + g * kActivationGroup + part * kLanes);
      q[part] = NearestLevels(vmulq_n_f32(values, inverse));
    }
    const int8x16_t bytes = NarrowToBytes(q);
    const float sum = scale * static_cast<float>(vaddlvq_s8(bytes));
    vst1q_s8(reinterpret_cast<int8_t*>(out + g * kActivationGroup), bytes);
    __builtin_memcpy(out + ActivationScaleOffset(k) + g * 4, &scale, 4);
    __builtin_memcpy(out + ActivationSumOffset(k) + g * 4, &sum, 4);
  }
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

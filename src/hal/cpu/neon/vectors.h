// Pieces of vector code that the NEON kernel files share. Everything has internal linkage, so that
// no copy of it can end up in code for other CPUs.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "hal/cpu/exp_poly.h"
#include "hal/kernel_set.h"

namespace tenon::neon {

// Floats in a vector.
static constexpr int64_t kLanes = 4;

static inline float LoadFloat(const std::byte* at) {
  float value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}

static inline float32x4_t LoadFloats(const std::byte* at) {
  return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(at)));
}

// 4 f16 at `at` as floats.
static inline float32x4_t LoadHalfs(const std::byte* at) {
  const uint8x8_t bits = vld1_u8(reinterpret_cast<const uint8_t*>(at));
  return vcvt_f32_f16(vreinterpret_f16_u8(bits));
}

static inline float32x4_t LoadBrains(const std::byte* at) {
  const uint8x8_t bits = vld1_u8(reinterpret_cast<const uint8_t*>(at));
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(bits), 16));
}

// The upper half added to the lower one, twice.
static inline float HalvingSum(float32x4_t lanes) {
  const float32x2_t two = vadd_f32(vget_low_f32(lanes), vget_high_f32(lanes));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// exp_poly.h for 4 lanes.
static inline float32x4_t Exp(float32x4_t x) {
  const float32x4_t low = vdupq_n_f32(kExpLow);
  const float32x4_t high = vdupq_n_f32(kExpHigh);
  const uint32x4_t below = vcltq_f32(x, low);
  const uint32x4_t above = vcgtq_f32(x, high);
  const float32x4_t clamped = vbslq_f32(above, high, vbslq_f32(below, low, x));
  const float32x4_t round = vdupq_n_f32(kExpRound);
  const float32x4_t t = vfmaq_f32(round, clamped, vdupq_n_f32(kLog2E));
  const float32x4_t n = vsubq_f32(t, round);
  float32x4_t r = vfmaq_f32(clamped, n, vdupq_n_f32(-kLn2High));
  r = vfmaq_f32(r, n, vdupq_n_f32(-kLn2Low));
  float32x4_t p = vfmaq_f32(vdupq_n_f32(kExpC3), vdupq_n_f32(kExpC4), r);
  p = vfmaq_f32(vdupq_n_f32(kExpC2), p, r);
  p = vfmaq_f32(vdupq_n_f32(kExpC1), p, r);
  p = vfmaq_f32(vdupq_n_f32(kExpC0), p, r);
  const float32x4_t y = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
  const uint32x4_t power =
      vaddq_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23), vdupq_n_u32(0x3f800000u));
  const float32x4_t result = vmulq_f32(y, vreinterpretq_f32_u32(power));
  return vbslq_f32(above, vdupq_n_f32(__builtin_inff()),
                   vbslq_f32(below, vdupq_n_f32(0.0f), result));
}

}  // namespace tenon::neon

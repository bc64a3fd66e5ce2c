// The exponential that all kernel sets share, so that their results agree bit for bit.
//
//   x' = min(max(x, kExpLow), kExpHigh), written so that a NaN stays NaN
//   t  = fma(x', kLog2E, kExpRound);  n = t - kExpRound             (n: nearest integer)
//   r  = fma(n, -kLn2High, x');  r = fma(n, -kLn2Low, r)            (|r| <= ln(2) / 2)
//   p  = c4;  p = fma(p, r, c3) ... fma(p, r, c0)
//   y  = fma(p, r * r, r) + 1
//   exp = y * 2^n; 0 where x < kExpLow, +inf where x > kExpHigh
// 2^n comes from the bits of t: (bits(t) << 23) + bits(1.0f), as kExpRound leaves n in the low
// bits. The relative error is below 2^-22.5.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr float kExpHigh = 88.37626f;  // n <= 127: 2^n is finite
inline constexpr float kExpLow = -87.33654f;  // n >= -126: 2^n is normal
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kExpRound = 0x1.8p+23f;   // adding it rounds to an integer, to nearest even
inline constexpr float kLn2High = 0x1.62e4p-1f;  // 16 bits: n * kLn2High is exact
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
// (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2: a minimax fit of degree 4, relative error 2^-28 of e^r.
inline constexpr float kExpC0 = 0x1.fffffcp-2f;
inline constexpr float kExpC1 = 0x1.555492p-3f;
inline constexpr float kExpC2 = 0x1.5558f2p-5f;
inline constexpr float kExpC3 = 0x1.1239e2p-7f;
inline constexpr float kExpC4 = 0x1.6a2434p-10f;

// gelu(x) = x / (1 + exp(kGeluLinear * x + kGeluCubic * x^3)), as 0.5 (1 + tanh(u)) = 1 / (1 +
// exp(-2u)):
//   x / (1 + exp(x * fma(x * x, kGeluCubic, kGeluLinear)))
inline constexpr float kGeluLinear = -1.5957691216057308f;  // -2 sqrt(2 / pi)
inline constexpr float kGeluCubic = -0.07135481282505227f;  // 0.044715 * kGeluLinear

// silu(x) = x / (1 + exp(-x)).
// softcap * tanh(s / softcap) = fma(-2 * softcap, 1 / (exp(s * (2 / softcap)) + 1), softcap).

// x clamped by scalar code and the exponential of it, as above.
static inline float ExpScalar(float x) {
  const float low = x < kExpLow ? kExpLow : x;
  const float clamped = low > kExpHigh ? kExpHigh : low;
  const float t = __builtin_fmaf(clamped, kLog2E, kExpRound);
  const float n = t - kExpRound;
  float r = __builtin_fmaf(n, -kLn2High, clamped);
  r = __builtin_fmaf(n, -kLn2Low, r);
  float p = __builtin_fmaf(kExpC4, r, kExpC3);
  p = __builtin_fmaf(p, r, kExpC2);
  p = __builtin_fmaf(p, r, kExpC1);
  p = __builtin_fmaf(p, r, kExpC0);
  const float y = __builtin_fmaf(p, r * r, r) + 1.0f;
  const uint32_t power = (__builtin_bit_cast(uint32_t, t) << 23) + 0x3f800000u;
  const float result = y * __builtin_bit_cast(float, power);
  if (x > kExpHigh) {
    return __builtin_inff();
  }
  return x < kExpLow ? 0.0f : result;
}

}  // namespace tenon

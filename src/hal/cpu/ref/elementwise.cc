#include "hal/cpu/exp_poly.h"
#include "hal/cpu/ref/ref_kernels.h"

namespace tenon::ref {
namespace {

// The largest |x| by its bits, which order as the values do, with NaN above all: so a NaN reaches
// the scale and is not lost.
float MaxAbs(const float* x, int64_t n, float least) {
  auto largest = __builtin_bit_cast(uint32_t, least);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return __builtin_bit_cast(float, largest);
}

// Nearest integer, to even; clamped as a subnormal scale may be far off, NaN to -127.
int32_t NearestLevel(float ratio) {
  const float low = ratio > -127.0f ? ratio : -127.0f;
  const float clamped = low < 127.0f ? low : 127.0f;
  return static_cast<int32_t>((clamped + kExpRound) - kExpRound);
}

void QuantizeGroup(const float* x, int8_t* q, float* scale, float* sum) {
  *scale = MaxAbs(x, kActivationGroup, 0.0f) / 127.0f;
  int32_t total = 0;
  for (int64_t i = 0; i < kActivationGroup; ++i) {
    const int32_t value = *scale == 0.0f ? 0 : NearestLevel(x[i] / *scale);
    q[i] = static_cast<int8_t>(value);
    total += value;
  }
  *sum = *scale * static_cast<float>(total);
}

float SiluValue(float x) {
  return x / (1.0f + ExpScalar(-x));
}

float GeluValue(float x) {
  const float exponent = x * __builtin_fmaf(x * x, kGeluCubic, kGeluLinear);
  return x / (1.0f + ExpScalar(exponent));
}

// Sum of squares: 16 lanes by i mod 16, then the upper half added to the lower one, four times.
float SumOfSquares(const float* x, int64_t n) {
  float lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) {
    lanes[i % 16] = __builtin_fmaf(x[i], x[i], lanes[i % 16]);
  }
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] += lanes[i + half];
    }
  }
  return lanes[0];
}

void Rotate(float* a, float* b, float cos, float sin) {
  const float x = *a;
  const float y = *b;
  *a = x * cos - y * sin;
  *b = x * sin + y * cos;
}

}  // namespace

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  auto* q = reinterpret_cast<int8_t*>(out);
  for (int64_t g = 0; g < k / kActivationGroup; ++g) {
    float scale;
    float sum;
    QuantizeGroup(x + g * kActivationGroup, q + g * kActivationGroup, &scale, &sum);
    __builtin_memcpy(out + ActivationScaleOffset(k) + g * 4, &scale, 4);
    __builtin_memcpy(out + ActivationSumOffset(k) + g * 4, &sum, 4);
  }
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  auto* q = reinterpret_cast<int8_t*>(out);
  const float range = MaxAbs(x, k, kLeastTokenRange);
  const float scale = range / 127.0f;
  const float inverse = 127.0f / range;
  for (int64_t g = 0; g < k / kActivationGroup; ++g) {
    int32_t total = 0;
    for (int64_t i = g * kActivationGroup; i < (g + 1) * kActivationGroup; ++i) {
      q[i] = static_cast<int8_t>(NearestLevel(x[i] * inverse));
      total += q[i];
    }
    const float sum = scale * static_cast<float>(total);
    __builtin_memcpy(out + ActivationScaleOffset(k) + g * 4, &scale, 4);
    __builtin_memcpy(out + ActivationSumOffset(k) + g * 4, &sum, 4);
  }
}

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i] * inverse * weight[i];
  }
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = a[i] + b[i];
  }
}

void Mul(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = a[i] * b[i];
  }
}

void Scale(const float* x, float factor, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i] * factor;
  }
}

void Silu(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = SiluValue(x[i]);
  }
}

void Gelu(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = GeluValue(x[i]);
  }
}

void SiluMul(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = SiluValue(a[i]) * b[i];
  }
}

void GeluMul(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = GeluValue(a[i]) * b[i];
  }
}

void RopeInterleaved(float* x, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t p = 0; p < pairs; ++p) {
    Rotate(x + 2 * p, x + 2 * p + 1, cos[p], sin[p]);
  }
}

void RopeHalf(float* x, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t p = 0; p < pairs; ++p) {
    Rotate(x + p, x + p + pairs, cos[p], sin[p]);
  }
}

}  // namespace tenon::ref

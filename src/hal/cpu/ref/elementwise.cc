#include "hal/cpu/activation_steps.h"
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

// Nearest integer, to even; clamped as the factors are rounded, NaN to -127.
int32_t NearestLevel(float ratio) {
  const float low = ratio > -127.0f ? ratio : -127.0f;
  const float clamped = low < 127.0f ? low : 127.0f;
  return static_cast<int32_t>((clamped + kExpRound) - kExpRound);
}

// q of one group by the inverse of its step; their sum.
int32_t RoundGroup(const float* x, float inverse_step, int8_t* q) {
  int32_t total = 0;
  for (int64_t i = 0; i < kActivationGroup; ++i) {
    const int32_t value = NearestLevel(x[i] * inverse_step);
    q[i] = static_cast<int8_t>(value);
    total += value;
  }
  return total;
}

// Both groups' levels by the inverses of their steps, in both orders, and the sums.
void RoundBlock(const float* x, float first_inverse, float second_inverse,
                const ActivationBlock& block) {
  RoundGroups(x, first_inverse, second_inverse, block, RoundGroup);
  const int8_t* q = block.groups->q;
  for (int64_t i = 0; i < kActivationGroup; i += 2) {
    __builtin_memcpy(block.whole->pairs + 2 * i, q + i, 2);
    __builtin_memcpy(block.whole->pairs + 2 * i + 2, q + kActivationGroup + i, 2);
  }
}

void RoundWide(const float* x, float inverse, int16_t* q) {
  for (int64_t i = 0; i < kActivationBlockValues; ++i)
    q[i] = static_cast<int16_t>((x[i] * inverse + kExpRound) - kExpRound);
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

void QuantizeBlock(const float* x, std::byte* row, int64_t k, int64_t index) {
  const auto magnitude = [](const float* group) {
    return __builtin_bit_cast(uint32_t, MaxAbs(group, kActivationGroup, 0.0f));
  };
  QuantizeByGroups(x, BlockAt(row, k, index), magnitude, RoundBlock);
}

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeBlock);
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  RoundRow(x, k, MaxAbs(x, k, kLeastTokenRange), out, RoundBlock);
}

void QuantizeWideBlock(const float* x, std::byte* row, int64_t, int64_t index) {
  const float largest = MaxAbs(x, kActivationBlockValues, 0.0f);
  QuantizeWide(x, __builtin_bit_cast(uint32_t, largest), WideBlockAt(row, index), RoundWide);
}

void QuantizeWideRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeWideBlock);
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

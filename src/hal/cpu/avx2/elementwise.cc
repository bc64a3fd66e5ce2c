#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"

namespace tenon::avx2 {
namespace {

// Groups of eight, then the rest under a mask.
template <class Op>
void ApplyUnary(const float* x, int64_t n, float* out, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(out + i, op(_mm256_loadu_ps(x + i)));
  }
  if (i < n) {
    const __m256i mask = LaneMask(0, n - i);
    _mm256_maskstore_ps(out + i, mask, op(_mm256_maskload_ps(x + i, mask)));
  }
}

template <class Op>
void ApplyBinary(const float* a, const float* b, int64_t n, float* out, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(out + i, op(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
  if (i < n) {
    const __m256i mask = LaneMask(0, n - i);
    const __m256 tail = op(_mm256_maskload_ps(a + i, mask), _mm256_maskload_ps(b + i, mask));
    _mm256_maskstore_ps(out + i, mask, tail);
  }
}

__m256 SiluValue(__m256 x) {
  const __m256 negated = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), Exp(negated)));
}

__m256 GeluValue(__m256 x) {
  const __m256 inner =
      _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(kGeluCubic), _mm256_set1_ps(kGeluLinear));
  const __m256 exponential = Exp(_mm256_mul_ps(x, inner));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exponential));
}

// 16 lanes by i mod 16, then halved (see the reference).
float SumOfSquares(const float* x, int64_t n) {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256 a = _mm256_loadu_ps(x + i);
    const __m256 b = _mm256_loadu_ps(x + i + kLanes);
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  if (i < n) {
    const __m256 a = _mm256_maskload_ps(x + i, LaneMask(0, n - i));
    low = _mm256_fmadd_ps(a, a, low);
  }
  if (i + kLanes < n) {
    const __m256 b = _mm256_maskload_ps(x + i + kLanes, LaneMask(0, n - i - kLanes));
    high = _mm256_fmadd_ps(b, b, high);
  }
  return HalvingSum(_mm256_add_ps(low, high));
}

void Rotate(float* a, float* b, float cos, float sin) {
  const float x = *a;
  const float y = *b;
  *a = x * cos - y * sin;
  *b = x * sin + y * cos;
}

}  // namespace

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const __m256 inverse = _mm256_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
  ApplyBinary(x, weight, n, out, [inverse](__m256 a, __m256 b) {
    return _mm256_mul_ps(_mm256_mul_ps(a, inverse), b);
  });
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_add_ps(x, y); });
}

void Mul(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_mul_ps(x, y); });
}

void Scale(const float* x, float factor, int64_t n, float* out) {
  const __m256 factors = _mm256_set1_ps(factor);
  ApplyUnary(x, n, out, [factors](__m256 v) { return _mm256_mul_ps(v, factors); });
}

void Silu(const float* x, int64_t n, float* out) {
  ApplyUnary(x, n, out, [](__m256 v) { return SiluValue(v); });
}

void Gelu(const float* x, int64_t n, float* out) {
  ApplyUnary(x, n, out, [](__m256 v) { return GeluValue(v); });
}

void SiluMul(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_mul_ps(SiluValue(x), y); });
}

void GeluMul(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_mul_ps(GeluValue(x), y); });
}

// Four pairs a vector: even lanes a*cos - b*sin, odd lanes b*cos + a*sin.
void RopeInterleaved(float* x, const float* cos, const float* sin, int64_t pairs) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  int64_t p = 0;
  for (; p + 4 <= pairs; p += 4) {
    const __m256 v = _mm256_loadu_ps(x + 2 * p);
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + p)), twice);
    const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + p)), twice);
    const __m256 swapped = _mm256_permute_ps(v, 0xb1);
    _mm256_storeu_ps(x + 2 * p, _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s)));
  }
  for (; p < pairs; ++p) {
    Rotate(x + 2 * p, x + 2 * p + 1, cos[p], sin[p]);
  }
}

void RopeHalf(float* x, const float* cos, const float* sin, int64_t pairs) {
  int64_t p = 0;
  for (; p + kLanes <= pairs; p += kLanes) {
    const __m256 a = _mm256_loadu_ps(x + p);
    const __m256 b = _mm256_loadu_ps(x + p + pairs);
    const __m256 c = _mm256_loadu_ps(cos + p);
    const __m256 s = _mm256_loadu_ps(sin + p);
    _mm256_storeu_ps(x + p, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
    _mm256_storeu_ps(x + p + pairs, _mm256_add_ps(_mm256_mul_ps(a, s), _mm256_mul_ps(b, c)));
  }
  for (; p < pairs; ++p) {
    Rotate(x + p, x + p + pairs, cos[p], sin[p]);
  }
}

}  // namespace tenon::avx2

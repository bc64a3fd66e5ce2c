// Panels of weights in 14 bits times activations in as many (PackedKind::kI14S32).
#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/vectors.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::avx512vnni {
namespace {

constexpr int kPairs = 16;  // vectors of a block: 16 rows x 2 k
constexpr int64_t kBlockBytes = PackedBlockBytes(PackedKind::kI14S32);

inline __m512i LoadPairs(const std::byte* block, int pair) {
  return _mm512_loadu_si512(reinterpret_cast<const void*>(block + pair * 64));
}

// d of 16 rows, whose exponents are in the lowest two bits of the words of k 0..3.
inline __m512 LoadScales(const std::byte* block) {
  const __m512i mask = _mm512_set1_epi16(3);
  const __m512i low = _mm512_and_si512(LoadPairs(block, 0), mask);
  const __m512i high = _mm512_and_si512(LoadPairs(block, 1), mask);
  // Times 1, 4, 16 and 64.
  const __m512i first =
      _mm512_dpwssd_epi32(_mm512_setzero_si512(), low, _mm512_set1_epi32(0x00040001));
  const __m512i exponents = _mm512_dpwssd_epi32(first, high, _mm512_set1_epi32(0x00400010));
  return _mm512_castsi512_ps(_mm512_slli_epi32(exponents, 23));
}

template <int kTokens>
void GemmTokens(const GemmArgs& args, const std::byte* activations, float* out) {
  __m512 acc[kTokens];
  for (int t = 0; t < kTokens; ++t)
    acc[t] = _mm512_setzero_ps();
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b, block += kBlockBytes) {
    const std::byte* x = activations + b * static_cast<int64_t>(sizeof(WideBlock));
    __m512i products[kTokens];
    for (int t = 0; t < kTokens; ++t)
      products[t] = _mm512_setzero_si512();
    for (int pair = 0; pair < kPairs; ++pair) {
      const __m512i words = LoadPairs(block, pair);
      const __m512i weights = pair < 2 ? _mm512_srai_epi16(words, 2) : words;
      for (int t = 0; t < kTokens; ++t) {
        int32_t values;
        __builtin_memcpy(&values, x + t * args.activation_stride + pair * 4, sizeof(values));
        products[t] = _mm512_dpwssd_epi32(products[t], weights, _mm512_set1_epi32(values));
      }
    }
    const __m512 d = LoadScales(block);
    for (int t = 0; t < kTokens; ++t) {
      const float scale = LoadFloat(x + t * args.activation_stride + offsetof(WideBlock, scale));
      const __m512 factor = _mm512_mul_ps(d, _mm512_set1_ps(scale));
      acc[t] = _mm512_fmadd_ps(factor, _mm512_cvtepi32_ps(products[t]), acc[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t)
    _mm512_storeu_ps(out + t * args.out_stride, acc[t]);
}

}  // namespace

void GemmI14S32(const GemmArgs& args) {
  // Eight sums are what two units with a latency of four or five need.
  int64_t token = RunTiles(args, 0, 8, GemmTokens<8>);
  token = RunTiles(args, token, 4, GemmTokens<4>);
  RunTiles(args, token, 1, GemmTokens<1>);
}

}  // namespace tenon::avx512vnni

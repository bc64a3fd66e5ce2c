// Panels of weights in 14 bits times activations in as many (PackedKind::kI14S32).
//
// vpmaddwd multiplies pairs of 16 bits and adds them in 32, twice as many a cycle as fused products
// of floats, but every one needs an addition beside it, which takes a turn of the same units.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/gemm_parts.h"

namespace tenon::avx2 {
namespace {

constexpr int kPairs = 16;  // vectors of a block: 16 rows x 2 k
constexpr int64_t kBlockBytes = PackedBlockBytes(PackedKind::kI14S32);
constexpr int64_t kWideBlockBytes = sizeof(WideBlock);

[[gnu::always_inline]] inline __m256i LoadPairs(const std::byte* block, int pair, int half) {
  return LoadVector(block + pair * kVectorBytes + half * kHalfBytes);
}

// Without the exponents' bits, which are in the words of k 0..3.
[[gnu::always_inline]] inline __m256i LoadWeights(const std::byte* block, int pair, int half) {
  const __m256i words = LoadPairs(block, pair, half);
  return pair < 2 ? _mm256_srai_epi16(words, 2) : words;
}

// d of eight rows.
[[gnu::always_inline]] inline __m256 LoadScales(const std::byte* block, int half) {
  const __m256i mask = _mm256_set1_epi16(3);
  const __m256i low = _mm256_and_si256(LoadPairs(block, 0, half), mask);
  const __m256i high = _mm256_and_si256(LoadPairs(block, 1, half), mask);
  // Times 1, 4, 16 and 64.
  const __m256i exponents =
      _mm256_add_epi32(_mm256_madd_epi16(low, _mm256_set1_epi32(0x00040001)),
                       _mm256_madd_epi16(high, _mm256_set1_epi32(0x00400010)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponents, 23));
}

template <int kTokens>
[[gnu::always_inline]] inline void MultiplyPair(const std::byte* block, int pair,
                                                const Rows<kTokens>& rows,
                                                PanelProducts<kTokens>& products) {
  const __m256i low_rows = LoadWeights(block, pair, 0);
  const __m256i high_rows = LoadWeights(block, pair, 1);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m256i x = _mm256_set1_epi32(Load<int32_t>(rows.at[t] + pair * 4));
    const __m256i low = _mm256_madd_epi16(low_rows, x);
    const __m256i high = _mm256_madd_epi16(high_rows, x);
    products[t][0] = pair == 0 ? low : _mm256_add_epi32(products[t][0], low);
    products[t][1] = pair == 0 ? high : _mm256_add_epi32(products[t][1], high);
    KeepInRegister(products[t][0]);
    KeepInRegister(products[t][1]);
  }
}

template <int kTokens>
[[gnu::always_inline]] inline void AddBlock(const std::byte* block, const Rows<kTokens>& rows,
                                            PanelSums<kTokens>& acc) {
  PanelProducts<kTokens> products;
#pragma GCC unroll 16
  for (int pair = 0; pair < kPairs; ++pair) {
    MultiplyPair<kTokens>(block, pair, rows, products);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m256 d = LoadScales(block, half);
    KeepInRegister(d);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 scale = Broadcast(rows.at[t] + offsetof(WideBlock, scale));
      acc[t][half] = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(products[t][half]),
                                     acc[t][half]);
    }
  }
}

// Tokens [token, token + kTokens). Only the first tile asks for the panel's lines: after it they
// are in the cache.
template <int kTokens>
void Tile(const GemmArgs& args, int64_t token) {
  Rows<kTokens> rows = RowsAt<kTokens>(args, token, 0);
  PanelSums<kTokens> acc;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    acc[t][0] = acc[t][1] = _mm256_setzero_ps();
  }
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b, block += kBlockBytes) {
    if (token == 0) {
      Prefetch<kBlockBytes>(block + kPrefetchBytes);
    }
    AddBlock<kTokens>(block, rows, acc);
    Advance(rows, kWideBlockBytes);
  }
  StoreSums<kTokens>(args, token, acc);
}

}  // namespace

// Four tokens are eight sums of integers in registers; the floats go to memory between blocks.
void GemmI14S32(const GemmArgs& args) {
  int64_t token = 0;
  for (; token + 4 <= args.tokens; token += 4) {
    Tile<4>(args, token);
  }
  switch (args.tokens - token) {
    case 3:
      return Tile<3>(args, token);
    case 2:
      return Tile<2>(args, token);
    case 1:
      return Tile<1>(args, token);
    default:
      return;
  }
}

}  // namespace tenon::avx2

// Panels of quantized weights with one d for 16 values of k, times int8 activations.
//
// Groups are added one by one, so four values of one group make a step, as in the packed panel.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/gemm_parts.h"

namespace tenon::avx2 {
namespace {

// Eight rows times kTokens tokens: the accumulators stay in registers.
template <int kTokens>
using Sums = __m256[kTokens];

// Values of step `step` (0..3) of group kGroup.
template <PackedKind kKind, int kGroup>
[[gnu::always_inline]] inline __m256i Values(const std::byte* weights, int step) {
  const Quads quads = LoadQuads<kKind>(weights, step, _mm256_setzero_si256());
  return kGroup == 0 ? quads.first : quads.second;
}

// Dot products with group kGroup. Products of kRun steps are added in 16 bits: 4 * 2 * 15 * 127 =
// 15240 with nibbles, 2 * 2 * 63 * 127 = 32004 with six bits.
template <PackedKind kKind, int kGroup, int kTokens>
[[gnu::always_inline]] inline void MultiplyGroup(const std::byte* weights,
                                                 const Rows<kTokens>& rows,
                                                 __m256i (&dots)[kTokens]) {
  constexpr int kRun = LayoutOf(kKind).high_bits == 0 ? 4 : 2;
  constexpr int64_t kQuants = offsetof(GroupsBlock, q) + kGroup * kActivationGroup;
#pragma GCC unroll 2
  for (int begin = 0; begin < kGroupSteps; begin += kRun) {
    __m256i sums[kTokens];
#pragma GCC unroll 4
    for (int step = begin; step < begin + kRun; ++step) {
      const __m256i w = Values<kKind, kGroup>(weights, step);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const auto four = Load<int32_t>(rows.at[t] + kQuants + step * 4);
        const __m256i product = _mm256_maddubs_epi16(w, _mm256_set1_epi32(four));
        sums[t] = step == begin ? product : _mm256_add_epi16(sums[t], product);
        KeepInRegister(sums[t]);
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256i wide = _mm256_madd_epi16(sums[t], _mm256_set1_epi16(1));
      dots[t] = begin == 0 ? wide : _mm256_add_epi32(dots[t], wide);
    }
  }
}

// Adds group kGroup: acc = fma(d * step, dot, acc); acc = fma(m, sum, acc).
template <PackedKind kKind, int kGroup, int kTokens>
[[gnu::always_inline]] inline void AddGroup(const std::byte* block, int half,
                                            const Rows<kTokens>& rows, Sums<kTokens>& acc) {
  __m256i dots[kTokens];
  MultiplyGroup<kKind, kGroup, kTokens>(block + half * kHalfBytes, rows, dots);
  const __m256 d = LoadD<kKind>(block, kGroup, half);
  const __m256 m = LoadM<kKind>(block, kGroup, half);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m256 step = Broadcast(rows.at[t] + offsetof(GroupsBlock, step) + kGroup * 4);
    const __m256 sum = Broadcast(rows.at[t] + offsetof(GroupsBlock, sum) + kGroup * 4);
    acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(d, step), _mm256_cvtepi32_ps(dots[t]), acc[t]);
    acc[t] = _mm256_fmadd_ps(m, sum, acc[t]);
  }
}

// Tokens [token, token + kTokens), kHalves halves of the panel's rows from `half` on.
template <PackedKind kKind, int kTokens, int kHalves>
void Tile(const GemmArgs& args, int64_t token, int half) {
  Rows<kTokens> rows = RowsAt<kTokens>(args, token, GroupsBlocksOffset(args.k));
  Sums<kTokens> acc[kHalves];
#pragma GCC unroll 2
  for (int h = 0; h < kHalves; ++h) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      acc[h][t] = _mm256_setzero_ps();
    }
  }
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b) {
    if constexpr (kTokens == 1) {
      Prefetch<PackedBlockBytes(kKind)>(block + kPrefetchBytes);
    }
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      AddGroup<kKind, 0, kTokens>(block, half + h, rows, acc[h]);
      AddGroup<kKind, 1, kTokens>(block, half + h, rows, acc[h]);
    }
    block += PackedBlockBytes(kKind);
    Advance(rows, kGroupsBlockBytes);
  }
#pragma GCC unroll 2
  for (int h = 0; h < kHalves; ++h) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      _mm256_storeu_ps(args.out + (token + t) * args.out_stride + (half + h) * kLanes, acc[h][t]);
    }
  }
}

// Tokens from `token` on in tiles of kTokens, one pass over the panel for each half of its rows:
// the accumulators of a tile fill the registers, and the second pass finds the panel in the cache.
template <PackedKind kKind, int kTokens>
int64_t Tiles(const GemmArgs& args, int64_t token) {
  for (; token + kTokens <= args.tokens; token += kTokens) {
    Tile<kKind, kTokens, 1>(args, token, 0);
    Tile<kKind, kTokens, 1>(args, token, 1);
  }
  return token;
}

template <PackedKind kKind>
void GroupGemm(const GemmArgs& args) {
  int64_t token = Tiles<kKind, 6>(args, 0);
  token = Tiles<kKind, 4>(args, token);
  token = Tiles<kKind, 2>(args, token);
  if (token < args.tokens) {
    Tile<kKind, 1, 2>(args, token, 0);  // one pass, as reading the panel is what takes time
  }
}

}  // namespace

void GemmU4S16M(const GemmArgs& args) {
  GroupGemm<PackedKind::kU4S16M>(args);
}
void GemmU6S16(const GemmArgs& args) {
  GroupGemm<PackedKind::kU6S16>(args);
}

}  // namespace tenon::avx2

// Panels of float weights times float activations.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/gemm_parts.h"

namespace tenon::avx2 {
namespace {

// Eight weights of half `half` at position i of k.
template <PackedKind kKind>
__m256 LoadWeights(const std::byte* panel, int64_t i, int half) {
  const std::byte* at = panel + i * PackedBlockBytes(kKind) + half * PackedBlockBytes(kKind) / 2;
  if constexpr (kKind == PackedKind::kF32) {
    return LoadF32(at);
  }
  return kKind == PackedKind::kF16 ? LoadF16(at) : LoadBF16(at);
}

template <PackedKind kKind, int kTokens>
void Tile(const GemmArgs& args, int64_t token) {
  const float* x[kTokens];
  PanelSums<kTokens> acc;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const std::byte* row = args.activations + (token + t) * args.activation_stride;
    x[t] = reinterpret_cast<const float*>(row);
    acc[t][0] = _mm256_setzero_ps();
    acc[t][1] = _mm256_setzero_ps();
  }
  const int64_t k = args.k;
  const std::byte* panel = args.panel;
  for (int64_t i = 0; i < k; ++i) {
    const __m256 low = LoadWeights<kKind>(panel, i, 0);
    const __m256 high = LoadWeights<kKind>(panel, i, 1);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 value = _mm256_broadcast_ss(x[t] + i);
      acc[t][0] = _mm256_fmadd_ps(low, value, acc[t][0]);
      acc[t][1] = _mm256_fmadd_ps(high, value, acc[t][1]);
    }
  }
  StoreSums<kTokens>(args, token, acc);
}

// Six tokens are twelve accumulators, two vectors of weights and one broadcast.
template <PackedKind kKind>
void FloatGemm(const GemmArgs& args) {
  int64_t token = 0;
  for (; token + 6 <= args.tokens; token += 6) {
    Tile<kKind, 6>(args, token);
  }
  for (; token + 4 <= args.tokens; token += 4) {
    Tile<kKind, 4>(args, token);
  }
  for (; token + 2 <= args.tokens; token += 2) {
    Tile<kKind, 2>(args, token);
  }
  if (token < args.tokens) {
    Tile<kKind, 1>(args, token);
  }
}

}  // namespace

void GemmF32(const GemmArgs& args) {
  FloatGemm<PackedKind::kF32>(args);
}
void GemmF16(const GemmArgs& args) {
  FloatGemm<PackedKind::kF16>(args);
}
void GemmBF16(const GemmArgs& args) {
  FloatGemm<PackedKind::kBF16>(args);
}

}  // namespace tenon::avx2

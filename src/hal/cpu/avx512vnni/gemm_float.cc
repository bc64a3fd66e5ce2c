#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/vectors.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::avx512vnni {
namespace {

// The 16 weights of one k.
template <PackedKind kKind>
inline __m512 LoadWeights(const std::byte* panel, int64_t k) {
  const std::byte* at = panel + k * PackedBlockBytes(kKind);
  if constexpr (kKind == PackedKind::kF32)
    return _mm512_loadu_ps(reinterpret_cast<const float*>(at));
  else if constexpr (kKind == PackedKind::kF16)
    return LoadHalfs(at);
  else
    return LoadBrains(at);
}

template <PackedKind kKind, int kTokens>
void GemmTokens(const GemmArgs& args, const std::byte* activations, float* out) {
  __m512 acc[kTokens];
  for (int t = 0; t < kTokens; ++t)
    acc[t] = _mm512_setzero_ps();
  for (int64_t k = 0; k < args.k; ++k) {
    const __m512 weights = LoadWeights<kKind>(args.panel, k);
    for (int t = 0; t < kTokens; ++t) {
      const float x = LoadFloat(activations + t * args.activation_stride + k * 4);
      acc[t] = _mm512_fmadd_ps(weights, _mm512_set1_ps(x), acc[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t)
    _mm512_storeu_ps(out + t * args.out_stride, acc[t]);
}

template <PackedKind kKind>
void Gemm(const GemmArgs& args) {
  // Eight accumulators are what two FMA units with a latency of four need.
  int64_t token = RunTiles(args, 0, 8, GemmTokens<kKind, 8>);
  token = RunTiles(args, token, 4, GemmTokens<kKind, 4>);
  RunTiles(args, token, 1, GemmTokens<kKind, 1>);
}

}  // namespace

void GemmF32(const GemmArgs& args) {
  Gemm<PackedKind::kF32>(args);
}
void GemmF16(const GemmArgs& args) {
  Gemm<PackedKind::kF16>(args);
}
void GemmBF16(const GemmArgs& args) {
  Gemm<PackedKind::kBF16>(args);
}

}  // namespace tenon::avx512vnni

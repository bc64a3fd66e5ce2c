#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/gemm_parts.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::avx512vnni {
namespace {

// Four consecutive activations in every 32-bit lane.
inline __m512i BroadcastFour(const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, sizeof(four));
  return _mm512_set1_epi32(four);
}

// The exact dot products of one group of 16 k with all rows.
inline __m512i DotGroup(const __m512i* steps, const int8_t* q) {
  __m512i dot = _mm512_setzero_si512();
  for (int s = 0; s < kGroupSteps; ++s)
    dot = _mm512_dpbusd_epi32(dot, steps[s], BroadcastFour(q + s * 4));
  return dot;
}

template <PackedKind kKind, int kTokens>
void GemmTokens(const GemmArgs& args, const std::byte* activations, float* out) {
  const __m512i codebook = LoadCodebook<kKind>(args.codebook);
  __m512 acc[kTokens];
  for (int t = 0; t < kTokens; ++t)
    acc[t] = _mm512_setzero_ps();
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / 32; ++b, block += LayoutOf(kKind).block_bytes) {
    __m512i steps[kBlockSteps];
    LoadSteps<kKind>(block, codebook, steps);
    const BlockScales scales = LoadBlockScales<kKind>(block);
    for (int t = 0; t < kTokens; ++t) {
      const Activations x = ActivationsAt(activations + t * args.activation_stride, args.k, b);
      const int8_t* q = x.groups->q;
      acc[t] = AddBlock<kKind>(acc[t], scales, x, DotGroup(steps, q),
                               DotGroup(steps + kGroupSteps, q + kActivationGroup));
    }
  }
  for (int t = 0; t < kTokens; ++t)
    _mm512_storeu_ps(out + t * args.out_stride, acc[t]);
}

template <PackedKind kKind>
void Gemm(const GemmArgs& args) {
  // Eight accumulators, the 8 weight vectors and the scales fit the 32 registers.
  int64_t token = RunTiles(args, 0, 8, GemmTokens<kKind, 8>);
  token = RunTiles(args, token, 4, GemmTokens<kKind, 4>);
  token = RunTiles(args, token, 2, GemmTokens<kKind, 2>);
  RunTiles(args, token, 1, GemmTokens<kKind, 1>);
}

}  // namespace

void GemmU4S32(const GemmArgs& args) {
  Gemm<PackedKind::kU4S32>(args);
}
void GemmU4S32M(const GemmArgs& args) {
  Gemm<PackedKind::kU4S32M>(args);
}
void GemmU4S16M(const GemmArgs& args) {
  Gemm<PackedKind::kU4S16M>(args);
}
void GemmCodebook4S32(const GemmArgs& args) {
  Gemm<PackedKind::kCodebook4S32>(args);
}
void GemmU5S32(const GemmArgs& args) {
  Gemm<PackedKind::kU5S32>(args);
}
void GemmU5S32M(const GemmArgs& args) {
  Gemm<PackedKind::kU5S32M>(args);
}
void GemmU6S16(const GemmArgs& args) {
  Gemm<PackedKind::kU6S16>(args);
}
void GemmU8S32(const GemmArgs& args) {
  Gemm<PackedKind::kU8S32>(args);
}

}  // namespace tenon::avx512vnni

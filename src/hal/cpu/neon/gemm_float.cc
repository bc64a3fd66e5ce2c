#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"
#include "hal/cpu/token_tiles.h"

namespace tenon::neon {
namespace {

constexpr int kQuarters = 4;  // vectors of a panel's 16 rows

template <PackedKind kKind>
inline float32x4_t LoadWeights(const std::byte* column, int quarter) {
  const std::byte* at = column + quarter * (PackedBlockBytes(kKind) / kQuarters);
  if constexpr (kKind == PackedKind::kF32)
    return LoadFloats(at);
  else if constexpr (kKind == PackedKind::kF16)
    return LoadHalfs(at);
  else
    return LoadBrains(at);
}

template <PackedKind kKind, int kTokens>
void GemmTokens(const GemmArgs& args, const std::byte* activations, float* out) {
  float32x4_t acc[kTokens][kQuarters];
  for (int t = 0; t < kTokens; ++t) {
    for (float32x4_t& sum : acc[t])
      sum = vdupq_n_f32(0.0f);
  }
  const std::byte* column = args.panel;
  for (int64_t k = 0; k < args.k; ++k, column += PackedBlockBytes(kKind)) {
    for (int quarter = 0; quarter < kQuarters; ++quarter) {
      const float32x4_t weights = LoadWeights<kKind>(column, quarter);
      for (int t = 0; t < kTokens; ++t) {
        const float x = LoadFloat(activations + t * args.activation_stride + k * 4);
        acc[t][quarter] = vfmaq_n_f32(acc[t][quarter], weights, x);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int quarter = 0; quarter < kQuarters; ++quarter)
      vst1q_f32(out + t * args.out_stride + quarter * kLanes, acc[t][quarter]);
  }
}

template <PackedKind kKind>
void Gemm(const GemmArgs& args) {
  int64_t token = RunTiles(args, 0, 4, GemmTokens<kKind, 4>);
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

}  // namespace tenon::neon

#include "hal/cpu/amx/amx_kernels.h"
#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/gemm_parts.h"

namespace tenon::amx {
namespace {

using avx512vnni::kBlockSteps;
using avx512vnni::kGroupSteps;

// Rows of a tile, so tokens of one tile product.
constexpr int64_t kTileTokens = 16;

// From here on tiles beat AVX-512: a product takes as long for one token as for its tile's rows,
// plus the way of the sums through memory.
constexpr int64_t kFewestTokens = 8;

// What ldtilecfg reads (Intel SDM volume 1, 18.3).
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t column_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

// Tile 0 and 1: int32 sums [tokens][16 rows] of a block's two groups. Tile 2 and 3: their
// activations [tokens][16 k]. Tile 4 and 5: their weights [4 steps][16 rows x 4 k].
constexpr TileConfig ConfigFor(int64_t tokens) {
  TileConfig config = {};
  config.palette = 1;
  for (int group = 0; group < 2; ++group) {
    config.rows[group] = static_cast<uint8_t>(tokens);
    config.column_bytes[group] = 64;
    config.rows[2 + group] = static_cast<uint8_t>(tokens);
    config.column_bytes[2 + group] = static_cast<uint16_t>(kActivationGroup);
    config.rows[4 + group] = static_cast<uint8_t>(kGroupSteps);
    config.column_bytes[4 + group] = 64;
  }
  return config;
}

struct TileConfigs {
  TileConfig of[kTileTokens + 1];  // by tokens; [0] is not used
};

constexpr TileConfigs MakeConfigs() {
  TileConfigs configs = {};
  for (int64_t tokens = 1; tokens <= kTileTokens; ++tokens)
    configs.of[tokens] = ConfigFor(tokens);
  return configs;
}

// Read-only data rather than a local variable: GCC 12 takes ldtilecfg to read 8 bytes only, and
// drops stores to the rest of a local configuration.
constinit const TileConfigs kConfigs = MakeConfigs();

// The compiler does not know that the tile loads read memory: pending stores to `data` end here.
inline void FinishStores(const void* data) {
  __asm__ volatile("" : : "r"(data) : "memory");
}

// The weights of one k-block, ready for two tiles: in place for bytes, unpacked to `buffer` else.
template <PackedKind kKind>
inline const std::byte* BlockWeights(const std::byte* block, __m512i codebook, std::byte* buffer) {
  if constexpr (!LayoutOf(kKind).nibbles) {
    return block;
  } else {
    __m512i steps[kBlockSteps];
    avx512vnni::LoadSteps<kKind>(block, codebook, steps);
    for (int s = 0; s < kBlockSteps; ++s)
      _mm512_store_si512(reinterpret_cast<void*>(buffer + s * 64), steps[s]);
    FinishStores(buffer);
    return buffer;
  }
}

// Both groups' dot products of the block, to sums [2][16 tokens][16 rows].
inline void MultiplyBlock(const std::byte* weights, const std::byte* q, int64_t stride,
                          int32_t* sums) {
  constexpr int64_t kTileFloats = kTileTokens * kPanelRows;
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(2, q, stride);
  _tile_loadd(4, weights, 64);
  _tile_dpbsud(0, 2, 4);
  _tile_loadd(3, q + kActivationGroup, stride);
  _tile_loadd(5, weights + kGroupSteps * 64, 64);
  _tile_dpbsud(1, 3, 5);
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kTileFloats, 64);
}

// Adds block b's products of all rows to the outputs of `tokens` tokens.
template <PackedKind kKind>
inline void AddBlocks(const GemmArgs& args, const std::byte* activations, int64_t b, int64_t tokens,
                      const avx512vnni::BlockScales& scales, const int32_t* sums, __m512* acc) {
  for (int64_t t = 0; t < tokens; ++t) {
    const int32_t* first = sums + t * kPanelRows;
    acc[t] = avx512vnni::AddBlock<kKind>(
        acc[t], scales,
        avx512vnni::ActivationsAt(activations + t * args.activation_stride, args.k, b),
        _mm512_load_si512(reinterpret_cast<const void*>(first)),
        _mm512_load_si512(reinterpret_cast<const void*>(first + kTileTokens * kPanelRows)));
  }
}

template <PackedKind kKind>
void GemmTile(const GemmArgs& args, const std::byte* activations, int64_t tokens, float* out) {
  _tile_loadconfig(&kConfigs.of[tokens]);
  const __m512i codebook = avx512vnni::LoadCodebook<kKind>(args.codebook);
  alignas(64) std::byte buffer[kBlockSteps * 64];
  alignas(64) int32_t sums[2 * kTileTokens * kPanelRows];
  __m512 acc[kTileTokens];
  for (__m512& sum : acc)
    sum = _mm512_setzero_ps();
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / 32; ++b, block += LayoutOf(kKind).block_bytes) {
    const std::byte* weights = BlockWeights<kKind>(block, codebook, buffer);
    MultiplyBlock(weights, activations + GroupsBlocksOffset(args.k) + b * kGroupsBlockBytes,
                  args.activation_stride, sums);
    AddBlocks<kKind>(args, activations, b, tokens, avx512vnni::LoadBlockScales<kKind>(block), sums,
                     acc);
  }
  for (int64_t t = 0; t < tokens; ++t)
    _mm512_storeu_ps(out + t * args.out_stride, acc[t]);
}

// Full tiles, then a short one, or AVX-512 for what is too little for a tile.
template <PackedKind kKind>
void Gemm(const GemmArgs& args, GemmFn few_tokens) {
  GemmArgs rest = args;
  bool tiles_used = false;
  while (rest.tokens >= kFewestTokens) {
    const int64_t tokens = rest.tokens < kTileTokens ? rest.tokens : kTileTokens;
    GemmTile<kKind>(args, rest.activations, tokens, rest.out);
    tiles_used = true;
    rest.activations += tokens * args.activation_stride;
    rest.out += tokens * args.out_stride;
    rest.tokens -= tokens;
  }
  // Tiles in use make the system save 8 KiB at every switch of threads.
  if (tiles_used)
    _tile_release();
  if (rest.tokens > 0)
    few_tokens(rest);
}

}  // namespace

void GemmU4S32(const GemmArgs& args) {
  Gemm<PackedKind::kU4S32>(args, avx512vnni::GemmU4S32);
}
void GemmU4S32M(const GemmArgs& args) {
  Gemm<PackedKind::kU4S32M>(args, avx512vnni::GemmU4S32M);
}
void GemmU4S16M(const GemmArgs& args) {
  Gemm<PackedKind::kU4S16M>(args, avx512vnni::GemmU4S16M);
}
void GemmCodebook4S32(const GemmArgs& args) {
  Gemm<PackedKind::kCodebook4S32>(args, avx512vnni::GemmCodebook4S32);
}
void GemmU5S32(const GemmArgs& args) {
  Gemm<PackedKind::kU5S32>(args, avx512vnni::GemmU5S32);
}
void GemmU5S32M(const GemmArgs& args) {
  Gemm<PackedKind::kU5S32M>(args, avx512vnni::GemmU5S32M);
}
void GemmU6S16(const GemmArgs& args) {
  Gemm<PackedKind::kU6S16>(args, avx512vnni::GemmU6S16);
}
void GemmU8S32(const GemmArgs& args) {
  Gemm<PackedKind::kU8S32>(args, avx512vnni::GemmU8S32);
}

}  // namespace tenon::amx

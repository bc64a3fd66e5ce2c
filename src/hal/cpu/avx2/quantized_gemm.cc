// Panels of quantized weights with one d for 32 values of k, times int8 activations.
//
// A stretch of a panel is unpacked into the first-level cache (hal/cpu/avx2/unpacked_block.h) and
// multiplied with all tokens, a few at a time. vpmaddubsw multiplies unsigned weights with signed
// activations and adds pairs in 16 bits. A 32-bit lane holds a pair of the first group and one of
// the second, so one vpmaddwd with the groups' multipliers both widens the sums and joins them.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/gemm_parts.h"
#include "hal/cpu/avx2/unpacked_block.h"

namespace tenon::avx2 {
namespace {

// Half of a first-level cache of 32 KiB: the activations of a tile take the rest.
constexpr int64_t kStretchBytes = 16384;

// Adds the products of step kStep in 16 bits; the first step of a run sets the sums.
template <int kTokens, class Block>
[[gnu::always_inline]] inline void MultiplyStep(const Block& block, int step, int part,
                                                bool is_first, const Rows<kTokens>& rows,
                                                PanelProducts<kTokens>& sums) {
  const __m256i low_rows = block.Values(step, 0, part);
  const __m256i high_rows = block.Values(step, 1, part);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m256i x = _mm256_set1_epi32(Load<int32_t>(rows.at[t] + step * 4));
    const __m256i low = _mm256_maddubs_epi16(low_rows, x);
    const __m256i high = _mm256_maddubs_epi16(high_rows, x);
    sums[t][0] = is_first ? low : _mm256_add_epi16(sums[t][0], low);
    sums[t][1] = is_first ? high : _mm256_add_epi16(sums[t][1], high);
    KeepInRegister(sums[t][0]);
    KeepInRegister(sums[t][1]);
  }
}

// The groups' multipliers, in the low and the high halves of every lane.
[[gnu::always_inline]] inline __m256i MultipliersOf(const std::byte* x) {
  return _mm256_set1_epi32(Load<int32_t>(x + offsetof(WholeBlock, multiplier)));
}

// acc = fma(d * scale, products, acc); acc = fma(m, sum, acc). d and m stay in registers for all
// tokens.
template <int kTokens, class Block>
[[gnu::always_inline]] inline void AddProducts(const Block& block, const Rows<kTokens>& rows,
                                               const PanelProducts<kTokens>& products,
                                               PanelSums<kTokens>& acc) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m256 d = block.D(half);
    __m256 m = block.M(half);
    KeepInRegister(d);
    KeepInRegister(m);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256 scale = Broadcast(rows.at[t] + offsetof(WholeBlock, scale));
      const __m256 sum = Broadcast(rows.at[t] + offsetof(WholeBlock, sum));
      const __m256 factor = _mm256_mul_ps(d, scale);
      acc[t][half] = _mm256_fmadd_ps(factor, _mm256_cvtepi32_ps(products[t][half]), acc[t][half]);
      acc[t][half] = _mm256_fmadd_ps(m, sum, acc[t][half]);
    }
  }
}

// Values of up to five bits, in runs of the kSteps steps that 16 bits hold.
template <int kSteps, int kTokens, class Block>
[[gnu::always_inline]] inline void AddRuns(const Block& block, const Rows<kTokens>& rows,
                                           PanelSums<kTokens>& acc) {
  PanelProducts<kTokens> products;
#pragma GCC unroll 2
  for (int begin = 0; begin < kBlockSteps; begin += kSteps) {
    PanelProducts<kTokens> sums;
#pragma GCC unroll 8
    for (int step = begin; step < begin + kSteps; ++step) {
      MultiplyStep<kTokens>(block, step, 0, step == begin, rows, sums);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256i multipliers = MultipliersOf(rows.at[t]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m256i wide = _mm256_madd_epi16(sums[t][half], multipliers);
        products[t][half] = begin == 0 ? wide : _mm256_add_epi32(products[t][half], wide);
      }
    }
  }
  AddProducts<kTokens>(block, rows, products, acc);
}

// Bytes: their nibbles side by side; the factor 16 comes with the multipliers.
template <int kTokens, class Block>
[[gnu::always_inline]] inline void AddBytes(const Block& block, const Rows<kTokens>& rows,
                                            PanelSums<kTokens>& acc) {
  PanelProducts<kTokens> low;
  PanelProducts<kTokens> high;
#pragma GCC unroll 8
  for (int step = 0; step < kBlockSteps; ++step) {
    MultiplyStep<kTokens>(block, step, 0, step == 0, rows, low);
    MultiplyStep<kTokens>(block, step, 1, step == 0, rows, high);
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m256i multipliers = MultipliersOf(rows.at[t]);
    const __m256i sixteenfold = _mm256_slli_epi16(multipliers, 4);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      low[t][half] = _mm256_add_epi32(_mm256_madd_epi16(low[t][half], multipliers),
                                      _mm256_madd_epi16(high[t][half], sixteenfold));
    }
  }
  AddProducts<kTokens>(block, rows, low, acc);
}

// Adds a block's products with kTokens tokens.
template <PackedKind kKind, int kTokens, class Block>
[[gnu::always_inline]] inline void AddBlock(const Block& block, const Rows<kTokens>& rows,
                                            PanelSums<kTokens>& acc) {
  constexpr UnpackedLayout kLayout = UnpackedLayoutOf(kKind);
  if constexpr (kLayout.parts == 2) {
    AddBytes<kTokens>(block, rows, acc);
  } else {
    AddRuns<kLayout.steps_in_16_bits, kTokens>(block, rows, acc);
  }
}

// Some blocks of a panel, unpacked.
struct Stretch {
  const std::byte* unpacked;
  int64_t first_block;
  int64_t blocks;
  const std::byte* next;  // what follows in the panel, to be asked for; null: nothing
};

// Tokens [token, token + kTokens) times a stretch, added to the outputs of the stretches before.
template <PackedKind kKind, int kTokens>
void Tile(const GemmArgs& args, const Stretch& stretch, int64_t token) {
  Rows<kTokens> rows = RowsAt<kTokens>(args, token, stretch.first_block * kWholeBlockBytes);
  PanelSums<kTokens> acc;
  LoadSums<kTokens>(args, token, stretch.first_block, acc);
  const std::byte* block = stretch.unpacked;
  const std::byte* next = stretch.next;
  for (int64_t b = 0; b < stretch.blocks; ++b, block += UnpackedLayoutOf(kKind).bytes) {
    if (next != nullptr) {
      Prefetch<PackedBlockBytes(kKind)>(next);
      next += PackedBlockBytes(kKind);
    }
    AddBlock<kKind, kTokens>(UnpackedBlock<kKind>{block}, rows, acc);
    Advance(rows, kWholeBlockBytes);
  }
  StoreSums<kTokens>(args, token, acc);
}

// All tokens from `token` on that fill tiles of kTokens.
template <PackedKind kKind, int kTokens>
int64_t Tiles(const GemmArgs& args, Stretch& stretch, int64_t token) {
  for (; token + kTokens <= args.tokens; token += kTokens) {
    Tile<kKind, kTokens>(args, stretch, token);
    stretch.next = nullptr;
  }
  return token;
}

// Few tokens: reading the panel is what takes time, so it is unpacked in registers.
template <PackedKind kKind, int kTokens>
void MultiplyFew(const GemmArgs& args, __m256i codebook, int64_t token) {
  Rows<kTokens> rows = RowsAt<kTokens>(args, token, 0);
  PanelSums<kTokens> acc;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    acc[t][0] = acc[t][1] = _mm256_setzero_ps();
  }
  const std::byte* block = args.panel;
  for (int64_t b = 0; b < args.k / kActivationBlockValues; ++b) {
    Prefetch<PackedBlockBytes(kKind)>(block + kPrefetchBytes);
    AddBlock<kKind, kTokens>(PackedBlock<kKind>{block, codebook}, rows, acc);
    block += PackedBlockBytes(kKind);
    Advance(rows, kWholeBlockBytes);
  }
  StoreSums<kTokens>(args, token, acc);
}

// Up to here unpacking into memory costs more than it saves (measured).
template <PackedKind kKind>
constexpr int64_t kFewTokens = UnpackedLayoutOf(kKind).parts == 2 ? 4 : 3;

// Tokens in a tile: their sums of 16 bits and their floats stay in 16 registers, or nearly so.
template <PackedKind kKind>
constexpr int kTileTokens = UnpackedLayoutOf(kKind).parts == 2 ? 2 : 4;

template <PackedKind kKind>
void QuantizedGemm(const GemmArgs& args) {
  const __m256i codebook = LoadCodebook<kKind>(args.codebook);
  if (args.tokens <= kFewTokens<kKind>) {
    int64_t token = 0;
    for (; token + 2 <= args.tokens; token += 2) {
      MultiplyFew<kKind, 2>(args, codebook, token);
    }
    if (token < args.tokens) {
      MultiplyFew<kKind, 1>(args, codebook, token);
    }
    return;
  }
  constexpr int64_t kUnpackedBytes = UnpackedLayoutOf(kKind).bytes;
  constexpr int64_t kMostBlocks = kStretchBytes / kUnpackedBytes;
  alignas(32) std::byte unpacked[kMostBlocks * kUnpackedBytes];
  const int64_t blocks = args.k / kActivationBlockValues;
  const int64_t stretches = (blocks + kMostBlocks - 1) / kMostBlocks;
  const std::byte* packed = args.panel;
  int64_t first = 0;
  for (int64_t i = 0; i < stretches; ++i) {
    const int64_t last = blocks * (i + 1) / stretches;
    for (int64_t b = first; b < last; ++b, packed += PackedBlockBytes(kKind)) {
      Unpack(PackedBlock<kKind>{packed, codebook}, unpacked + (b - first) * kUnpackedBytes);
    }
    Stretch stretch = {unpacked, first, last - first, packed};
    int64_t token = Tiles<kKind, kTileTokens<kKind>>(args, stretch, 0);
    token = Tiles<kKind, 2>(args, stretch, token);
    Tiles<kKind, 1>(args, stretch, token);
    first = last;
  }
}

}  // namespace

void GemmU4S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S32>(args);
}
void GemmU4S32M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S32M>(args);
}
void GemmCodebook4S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kCodebook4S32>(args);
}
void GemmU5S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU5S32>(args);
}
void GemmU5S32M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU5S32M>(args);
}
void GemmU8S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU8S32>(args);
}

}  // namespace tenon::avx2

// Panels of weights in 14 bits times activations in as many (PackedKind::kI14S32 and kF12S32).
//
// vpmaddwd multiplies pairs of 16 bits and adds them in 32, twice as many a cycle as fused products
// of floats, but every one needs an addition beside it, which takes a turn of the same units.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/gemm_parts.h"
#include "hal/cpu/f12_panel.h"

namespace tenon::avx2 {
namespace {

constexpr int kPairs = 16;  // vectors of a block: 16 rows x 2 k
constexpr int kHalves = 2;  // of a panel's rows
constexpr int64_t kWideBlockBytes = sizeof(WideBlock);

// A float whose exponent field is the integer, and no other bit.
inline __m256 PowersOfTwo(__m256i fields) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(fields, 23));
}

// The forms of a block of weights: Words(block, pair, half) are two k of eight rows, Scales d.
struct I14 {
  static constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kI14S32);
  static constexpr int64_t kPackedBytes = kBytes;

  [[gnu::always_inline]] static __m256i Stored(const std::byte* block, int pair, int half) {
    return LoadVector(block + pair * kVectorBytes + half * kHalfBytes);
  }
  // Without the exponents' bits, which are in the words of k 0..3.
  [[gnu::always_inline]] static __m256i Words(const std::byte* block, int pair, int half) {
    const __m256i words = Stored(block, pair, half);
    return pair < 2 ? _mm256_srai_epi16(words, 2) : words;
  }
  [[gnu::always_inline]] static __m256 Scales(const std::byte* block, int half) {
    const __m256i mask = _mm256_set1_epi16(3);
    const __m256i low = _mm256_and_si256(Stored(block, 0, half), mask);
    const __m256i high = _mm256_and_si256(Stored(block, 1, half), mask);
    // Times 1, 4, 16 and 64.
    return PowersOfTwo(_mm256_add_epi32(_mm256_madd_epi16(low, _mm256_set1_epi32(0x00040001)),
                                        _mm256_madd_epi16(high, _mm256_set1_epi32(0x00400010))));
  }
};

struct F12 {
  static constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kF12S32);
  static constexpr int64_t kPackedBytes = kBytes;

  // A significand times its power of two and sign; the other byte of a word times zero.
  [[gnu::always_inline]] static __m256i Words(const std::byte* block, int pair, int half) {
    const __m256i powers = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(1, 2, 4, 8, 16, 32, 0, 0, -1, -2, -4, -8, -16, -32, 0, 0));
    const int v = pair / 2;
    const std::byte* at = block + half * kHalfBytes;
    const __m256i significands = LoadVector(at + v * kVectorBytes);
    const __m256i nibbles = LoadVector(at + kF12Nibbles + v / 2 * kVectorBytes);
    const __m256i codes = _mm256_and_si256(v % 2 == 0 ? nibbles : _mm256_srli_epi16(nibbles, 4),
                                           _mm256_set1_epi8(15));
    const __m256i kept = _mm256_set1_epi16(pair % 2 == 0 ? 0x00ff : static_cast<int16_t>(0xff00));
    return _mm256_maddubs_epi16(significands,
                                _mm256_and_si256(_mm256_shuffle_epi8(powers, codes), kept));
  }
  [[gnu::always_inline]] static __m256 Scales(const std::byte* block, int half) {
    const auto bytes = Load<int64_t>(block + kF12Exponents + half * 8);
    return PowersOfTwo(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes)));
  }
};

// A block of F12 for many tokens.
struct Unpacked {
  static constexpr int64_t kBytes = kUnpackedBlockBytes;
  static constexpr int64_t kPackedBytes = F12::kBytes;

  [[gnu::always_inline]] static __m256i Words(const std::byte* block, int pair, int half) {
    return LoadVector(block + pair * kVectorBytes + half * kHalfBytes);
  }
  [[gnu::always_inline]] static __m256 Scales(const std::byte* block, int half) {
    return LoadF32(block + kUnpackedScales + half * kHalfBytes);
  }
};

template <class Form, int kTokens>
[[gnu::always_inline]] inline void MultiplyPair(const std::byte* block, int pair,
                                                const Rows<kTokens>& rows,
                                                PanelProducts<kTokens>& products) {
  const __m256i low_rows = Form::Words(block, pair, 0);
  const __m256i high_rows = Form::Words(block, pair, 1);
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

template <class Form, int kTokens>
[[gnu::always_inline]] inline void AddBlock(const std::byte* block, const Rows<kTokens>& rows,
                                            PanelSums<kTokens>& acc) {
  PanelProducts<kTokens> products;
#pragma GCC unroll 16
  for (int pair = 0; pair < kPairs; ++pair) {
    MultiplyPair<Form, kTokens>(block, pair, rows, products);
  }
#pragma GCC unroll 2
  for (int half = 0; half < kHalves; ++half) {
    __m256 d = Form::Scales(block, half);
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
template <class Form, int kTokens>
void Tile(const GemmArgs& args, const Stretch& stretch, int64_t token) {
  Rows<kTokens> rows = RowsAt<kTokens>(args, token, stretch.first * kWideBlockBytes);
  PanelSums<kTokens> acc;
  LoadSums<kTokens>(args, token, stretch.first, acc);
  const std::byte* block = stretch.blocks;
  for (int64_t b = 0; b < stretch.count; ++b, block += Form::kBytes) {
    if (token == 0) {
      Prefetch<Form::kPackedBytes>(stretch.next + b * Form::kPackedBytes);
    }
    AddBlock<Form, kTokens>(block, rows, acc);
    Advance(rows, kWideBlockBytes);
  }
  StoreSums<kTokens>(args, token, acc);
}

// Four tokens are eight sums of integers in registers; the floats go to memory between blocks.
template <class Form>
void MultiplyStretch(const GemmArgs& args, const Stretch& stretch) {
  int64_t token = 0;
  for (; token + 4 <= args.tokens; token += 4) {
    Tile<Form, 4>(args, stretch, token);
  }
  switch (args.tokens - token) {
    case 3:
      return Tile<Form, 3>(args, stretch, token);
    case 2:
      return Tile<Form, 2>(args, stretch, token);
    case 1:
      return Tile<Form, 1>(args, stretch, token);
    default:
      return;
  }
}

void Unpack(const std::byte* block, std::byte* out) {
#pragma GCC unroll 16
  for (int pair = 0; pair < kPairs; ++pair) {
    for (int half = 0; half < kHalves; ++half) {
      StoreVector(out + pair * kVectorBytes + half * kHalfBytes, F12::Words(block, pair, half));
    }
  }
  for (int half = 0; half < kHalves; ++half) {
    StoreVector(out + kUnpackedScales + half * kHalfBytes,
                _mm256_castps_si256(F12::Scales(block, half)));
  }
}

// Wider blocks are asked for from further off: 5% more a second than at half the distance.
constexpr int64_t kI14PrefetchBytes = 2 * kPrefetchBytes;

// Tiles unpack the weights for themselves up to here.
constexpr int64_t kFewTokens = 4;

}  // namespace

void GemmI14S32(const GemmArgs& args) {
  MultiplyStretch<I14>(args, WholePanel(args, kI14PrefetchBytes));
}

void GemmF12S32(const GemmArgs& args) {
  if (args.tokens <= kFewTokens) {
    return MultiplyStretch<F12>(args, WholePanel(args, kPrefetchBytes));
  }
  RunUnpacked(args, Unpack,
              [&](const Stretch& stretch) { MultiplyStretch<Unpacked>(args, stretch); });
}

}  // namespace tenon::avx2

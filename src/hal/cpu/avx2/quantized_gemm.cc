// Panels of quantized weights times int8 activations.
//
// Eight rows are one vector of 32 bytes: four values of k for each row. vpmaddubsw multiplies
// unsigned weights with signed activations and adds pairs, saturating to 16 bits; every path below
// keeps its sums in range, so that the integer dot products are exact.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"
#include "hal/cpu/panel_layout.h"

namespace tenon::avx2 {
namespace {

constexpr int64_t kHalfBytes = 32;    // half a panel's rows in a step: one vector
constexpr int64_t kVectorBytes = 64;  // a step of all rows
constexpr int kSteps = 4;             // steps in a group of 16 values

__m256i LoadVector(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

// Four activations of a token, in every 32-bit lane.
__m256i BroadcastStep(const std::byte* q, int step) {
  int32_t four;
  __builtin_memcpy(&four, q + step * 4, 4);
  return _mm256_set1_epi32(four);
}

float LoadFloat(const std::byte* at) {
  float value;
  __builtin_memcpy(&value, at, 4);
  return value;
}

// Values 0..15 of step `step` of group kGroup.
template <int kGroup>
[[gnu::always_inline]] inline __m256i Nibbles(const std::byte* weights, int step) {
  const __m256i pairs = LoadVector(weights + step * kVectorBytes);
  const __m256i shifted = kGroup == 0 ? pairs : _mm256_srli_epi16(pairs, 4);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
}

// The dot products of eight rows with a group of kTokens activation rows, as eight 32-bit lanes.
// `weights` is the k-block at the half's rows, q[t] + offset the group's activations.
template <int kTokens>
struct DotArgs {
  const std::byte* weights;
  const std::byte* const* q;
  int64_t offset;
  __m256i codebook;
};

// The values of step `step` of group kGroup of a kind with kHighBits above the nibble.
template <int kGroup, int kHighBits>
[[gnu::always_inline]] inline __m256i Values(const std::byte* weights, int step) {
  const __m256i low = Nibbles<kGroup>(weights, step);
  if constexpr (kHighBits == 0) {
    return low;
  }
  const HighBitsPlace place = PlaceOfHighBits(kHighBits, kGroup * kSteps + step);
  const __m256i bits = LoadVector(weights + place.offset);
  const __m256i shifted = place.shift >= 0 ? _mm256_slli_epi16(bits, place.shift)
                                           : _mm256_srli_epi16(bits, -place.shift);
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(place.mask));
  return _mm256_or_si256(low, _mm256_and_si256(shifted, mask));
}

// Four steps of 2 * 15 * 127 each add up to 15240, with a fifth bit to 31496: one widening for a
// group.
template <int kGroup, int kHighBits, int kTokens>
[[gnu::always_inline]] inline void DotU4(const DotArgs<kTokens>& args, __m256i* dots) {
  __m256i sums[kTokens];
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const __m256i w = Values<kGroup, kHighBits>(args.weights, step);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256i x = BroadcastStep(args.q[t] + args.offset, step);
      const __m256i product = _mm256_maddubs_epi16(w, x);
      sums[t] = step == 0 ? product : _mm256_add_epi16(sums[t], product);
      KeepInRegister(sums[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    dots[t] = _mm256_madd_epi16(sums[t], _mm256_set1_epi16(1));
  }
}

// Two steps of 2 * 63 * 127 each add up to 32004: two widenings.
template <int kGroup, int kTokens>
[[gnu::always_inline]] inline void DotU6(const DotArgs<kTokens>& args, __m256i* dots) {
#pragma GCC unroll 2
  for (int pair = 0; pair < kSteps; pair += 2) {
    const __m256i first = Values<kGroup, 2>(args.weights, pair);
    const __m256i second = Values<kGroup, 2>(args.weights, pair + 1);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const std::byte* q = args.q[t] + args.offset;
      const __m256i sum =
          _mm256_add_epi16(_mm256_maddubs_epi16(first, BroadcastStep(q, pair)),
                           _mm256_maddubs_epi16(second, BroadcastStep(q, pair + 1)));
      const __m256i wide = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
      dots[t] = pair == 0 ? wide : _mm256_add_epi32(dots[t], wide);
      KeepInRegister(dots[t]);
    }
  }
}

// w = low + 16 * high, each nibble as in DotU4; the factor 16 comes with the widening.
template <int kGroup, int kTokens>
[[gnu::always_inline]] inline void DotU8(const DotArgs<kTokens>& args, __m256i* dots) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i low_sums[kTokens];
  __m256i high_sums[kTokens];
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const __m256i w = LoadVector(args.weights + (kGroup * kSteps + step) * kVectorBytes);
    const __m256i low = _mm256_and_si256(w, mask);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(w, 4), mask);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256i x = BroadcastStep(args.q[t] + args.offset, step);
      const __m256i low_product = _mm256_maddubs_epi16(low, x);
      const __m256i high_product = _mm256_maddubs_epi16(high, x);
      low_sums[t] = step == 0 ? low_product : _mm256_add_epi16(low_sums[t], low_product);
      high_sums[t] = step == 0 ? high_product : _mm256_add_epi16(high_sums[t], high_product);
      KeepInRegister(low_sums[t]);
      KeepInRegister(high_sums[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m256i low = _mm256_madd_epi16(low_sums[t], _mm256_set1_epi16(1));
    const __m256i high = _mm256_madd_epi16(high_sums[t], _mm256_set1_epi16(16));
    dots[t] = _mm256_add_epi32(low, high);
  }
}

// |w| * (x with the sign of w): at most 2 * 128 * 127 = 32512, so each step is widened by itself.
template <int kGroup, int kTokens>
[[gnu::always_inline]] inline void DotCodebook(const DotArgs<kTokens>& args, __m256i* dots) {
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const __m256i w = _mm256_shuffle_epi8(args.codebook, Nibbles<kGroup>(args.weights, step));
    const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const __m256i x = _mm256_sign_epi8(BroadcastStep(args.q[t] + args.offset, step), w);
      const __m256i product =
          _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, x), _mm256_set1_epi16(1));
      dots[t] = step == 0 ? product : _mm256_add_epi32(dots[t], product);
      KeepInRegister(dots[t]);
    }
  }
}

struct Scales {
  __m256 d;
  __m256 m;
};

// d and m of the eight rows of half `half`, with `scales` at the group's d.
template <PackedKind kKind>
[[gnu::always_inline]] inline Scales LoadScales(const std::byte* scales, int64_t half) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  if constexpr (kLayout.codebook) {
    return {LoadF32(scales + half * 32), _mm256_setzero_ps()};
  }
  const __m256 d = LoadF16(scales + half * 16);
  if constexpr (kLayout.stored_minima) {
    return {d, LoadF16(scales + kLayout.minima_offset + half * 16)};
  }
  return {d, _mm256_mul_ps(d, _mm256_set1_ps(static_cast<float>(-kLayout.zero_point)))};
}

// kTokens activation rows, and where their scales and sums lie.
template <int kTokens>
struct Rows {
  const std::byte* q[kTokens];
  int64_t scale_offset;
  int64_t sum_offset;
};

// Adds group `index` (its parity is kGroup) of eight rows to the accumulators of kTokens tokens.
template <PackedKind kKind, int kGroup, int kTokens>
[[gnu::always_inline]] inline void AddGroup(const std::byte* block, int64_t half, int64_t index,
                                            const Rows<kTokens>& rows, __m256i codebook,
                                            __m256* acc) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  __m256i dots[kTokens];
  const DotArgs<kTokens> dot = {block + half * kHalfBytes, rows.q, index * kActivationGroup,
                                codebook};
  if constexpr (kLayout.codebook) {
    DotCodebook<kGroup>(dot, dots);
  } else if constexpr (kLayout.high_bits == 2) {
    DotU6<kGroup>(dot, dots);
  } else if constexpr (kLayout.nibbles) {
    DotU4<kGroup, kLayout.high_bits>(dot, dots);
  } else {
    DotU8<kGroup>(dot, dots);
  }
  const Scales scales =
      LoadScales<kKind>(block + kLayout.scales_offset + kGroup * kLayout.group_stride, half);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const std::byte* row = rows.q[t] + index * 4;
    const __m256 scale = _mm256_set1_ps(LoadFloat(row + rows.scale_offset));
    acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(scales.d, scale), _mm256_cvtepi32_ps(dots[t]), acc[t]);
    if constexpr (!kLayout.codebook) {
      const __m256 sum = _mm256_set1_ps(LoadFloat(row + rows.sum_offset));
      acc[t] = _mm256_fmadd_ps(scales.m, sum, acc[t]);
    }
  }
}

template <int kTokens>
[[gnu::always_inline]] inline Rows<kTokens> RowsAt(const GemmArgs& args, int64_t token) {
  Rows<kTokens> rows;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    rows.q[t] = args.activations + (token + t) * args.activation_stride;
  }
  rows.scale_offset = ActivationScaleOffset(args.k);
  rows.sum_offset = ActivationSumOffset(args.k);
  return rows;
}

// With one token, reading the panel is what takes time, and the hardware's prefetch ends at every
// page: the lines of a block kPrefetchBytes further on are asked for. Past a matrix's end this asks
// for lines that nobody needs, which is harmless.
constexpr int64_t kPrefetchBytes = 4096;

template <int64_t kBytes>
[[gnu::always_inline]] inline void PrefetchAhead(const std::byte* block) {
#pragma GCC unroll 16
  for (int64_t at = 0; at < kBytes; at += kVectorBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(block + kPrefetchBytes + at), _MM_HINT_T0);
  }
}

// Tokens [token, token + kTokens), kHalves halves of the panel's rows from `half` on.
template <PackedKind kKind, int kTokens, int kHalves>
void Tile(const GemmArgs& args, int64_t token, int64_t half) {
  const Rows<kTokens> rows = RowsAt<kTokens>(args, token);
  __m256i codebook = _mm256_setzero_si256();
  if constexpr (LayoutOf(kKind).codebook) {
    codebook = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(args.codebook)));
  }
  __m256 acc[kHalves][kTokens];
#pragma GCC unroll 8
  for (int h = 0; h < kHalves; ++h) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      acc[h][t] = _mm256_setzero_ps();
    }
  }
  const std::byte* block = args.panel;
  const int64_t groups = args.k / kActivationGroup;
  for (int64_t group = 0; group < groups; group += 2) {
    if constexpr (kTokens == 1) {
      PrefetchAhead<PackedBlockBytes(kKind)>(block);
    }
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      AddGroup<kKind, 0, kTokens>(block, half + h, group, rows, codebook, acc[h]);
      AddGroup<kKind, 1, kTokens>(block, half + h, group + 1, rows, codebook, acc[h]);
    }
    block += PackedBlockBytes(kKind);
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHalves; ++h) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      _mm256_storeu_ps(args.out + (token + t) * args.out_stride + (half + h) * kLanes, acc[h][t]);
    }
  }
}

// Tokens from `token` on in tiles of kTokens, one pass over the panel for each half of its rows:
// the accumulators of a tile stay in registers, and the second pass finds the panel in the cache.
template <PackedKind kKind, int kTokens>
int64_t Tiles(const GemmArgs& args, int64_t token) {
  for (; token + kTokens <= args.tokens; token += kTokens) {
    Tile<kKind, kTokens, 1>(args, token, 0);
    Tile<kKind, kTokens, 1>(args, token, 1);
  }
  return token;
}

template <PackedKind kKind>
void QuantizedGemm(const GemmArgs& args) {
  int64_t token = 0;
  if constexpr (LayoutOf(kKind).nibbles && !LayoutOf(kKind).codebook) {
    token = Tiles<kKind, 6>(args, token);
  }
  token = Tiles<kKind, 4>(args, token);
  token = Tiles<kKind, 2>(args, token);
  if (token < args.tokens) {
    Tile<kKind, 1, 2>(args, token, 0);  // one pass, as reading the panel is what takes time
  }
}

}  // namespace

void GemmU4S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S32>(args);
}
void GemmU4S32M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S32M>(args);
}
void GemmU4S16M(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU4S16M>(args);
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
void GemmU6S16(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU6S16>(args);
}
void GemmU8S32(const GemmArgs& args) {
  QuantizedGemm<PackedKind::kU8S32>(args);
}

}  // namespace tenon::avx2

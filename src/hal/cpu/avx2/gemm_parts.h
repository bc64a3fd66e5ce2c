// Reading a packed k-block and rows of activations: shared by the products of quantized weights.
// Internal linkage throughout (hal/cpu/panel_layout.h).
#pragma once

#include "hal/cpu/avx2/vector_math.h"
#include "hal/cpu/panel_layout.h"

namespace tenon::avx2 {

static constexpr int64_t kHalfBytes = 32;    // half a panel's rows in a step: one vector
static constexpr int64_t kVectorBytes = 64;  // a step of all rows
static constexpr int kBlockSteps = 8;        // steps in a k-block
static constexpr int kGroupSteps = 4;        // vectors of nibbles in a k-block

template <class T>
[[gnu::always_inline]] static inline T Load(const std::byte* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}

// kTokens rows of activations at the same block.
template <int kTokens>
struct Rows {
  const std::byte* at[kTokens];
};

// Rows from `token` on, `offset` bytes into each.
template <int kTokens>
[[gnu::always_inline]] static inline Rows<kTokens> RowsAt(const GemmArgs& args, int64_t token,
                                                          int64_t offset) {
  Rows<kTokens> rows;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    rows.at[t] = args.activations + (token + t) * args.activation_stride + offset;
  }
  return rows;
}

// To the next block, of `bytes` bytes.
template <int kTokens>
[[gnu::always_inline]] static inline void Advance(Rows<kTokens>& rows, int64_t bytes) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    rows.at[t] += bytes;
  }
}

[[gnu::always_inline]] static inline __m256 Broadcast(const std::byte* at) {
  return _mm256_set1_ps(Load<float>(at));
}

static inline __m256i LoadVector(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

static inline void StoreVector(std::byte* at, __m256i v) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(at), v);
}

// The codebook's values moved up by 128, in both halves.
template <PackedKind kKind>
static inline __m256i LoadCodebook(const int8_t* codebook) {
  if constexpr (!LayoutOf(kKind).codebook) {
    return _mm256_setzero_si256();
  } else {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook));
    return _mm256_xor_si256(_mm256_broadcastsi128_si256(values), _mm256_set1_epi8(-128));
  }
}

// Bits above the nibble of values 4 * step..4 * step + 3.
template <PackedKind kKind>
[[gnu::always_inline]] static inline __m256i HighBits(const std::byte* weights, int step) {
  const HighBitsPlace place = PlaceOfHighBits(LayoutOf(kKind).high_bits, step);
  const __m256i bits = LoadVector(weights + place.offset);
  const __m256i shifted = place.shift >= 0 ? _mm256_slli_epi16(bits, place.shift)
                                           : _mm256_srli_epi16(bits, -place.shift);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(place.mask)));
}

// Four values of eight rows: first[v] of group 0 and second[v] of group 1, v = 0..3.
struct Quads {
  __m256i first;
  __m256i second;
};

template <PackedKind kKind>
[[gnu::always_inline]] static inline Quads LoadQuads(const std::byte* weights, int v,
                                                     __m256i codebook) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  if constexpr (!kLayout.nibbles) {
    return {LoadVector(weights + v * kVectorBytes),
            LoadVector(weights + (v + kGroupSteps) * kVectorBytes)};
  }
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i pairs = LoadVector(weights + v * kVectorBytes);
  Quads quads = {_mm256_and_si256(pairs, mask),
                 _mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask)};
  if constexpr (kLayout.high_bits > 0) {
    quads.first = _mm256_or_si256(quads.first, HighBits<kKind>(weights, v));
    quads.second = _mm256_or_si256(quads.second, HighBits<kKind>(weights, v + kGroupSteps));
  }
  if constexpr (kLayout.codebook) {
    quads.first = _mm256_shuffle_epi8(codebook, quads.first);
    quads.second = _mm256_shuffle_epi8(codebook, quads.second);
  }
  return quads;
}

// d and m of eight rows for group `group` of a block.
template <PackedKind kKind>
[[gnu::always_inline]] static inline __m256 LoadD(const std::byte* block, int group, int half) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  const std::byte* scales = block + kLayout.scales_offset + group * kLayout.group_stride;
  return kLayout.codebook ? LoadF32(scales + half * 32) : LoadF16(scales + half * 16);
}

template <PackedKind kKind>
[[gnu::always_inline]] static inline __m256 LoadM(const std::byte* block, int group, int half) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  if constexpr (kLayout.stored_minima) {
    const std::byte* scales = block + kLayout.scales_offset + group * kLayout.group_stride;
    return LoadF16(scales + kLayout.minima_offset + half * 16);
  }
  const __m256 zero = _mm256_set1_ps(static_cast<float>(-kLayout.zero_point));
  return _mm256_mul_ps(zero, LoadD<kKind>(block, group, half));
}

// What the products of a panel are added to: [token][half of the rows], eight rows each.
template <int kTokens>
using PanelSums = __m256[kTokens][2];

// Integers of a block: [token][half of the rows].
template <int kTokens>
using PanelProducts = __m256i[kTokens][2];

// The sums of tokens [token, token + kTokens) to their places.
template <int kTokens>
[[gnu::always_inline]] static inline void StoreSums(const GemmArgs& args, int64_t token,
                                                    const PanelSums<kTokens>& acc) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    float* out = args.out + (token + t) * args.out_stride;
    _mm256_storeu_ps(out, acc[t][0]);
    _mm256_storeu_ps(out + kLanes, acc[t][1]);
  }
}

// The sums of blocks before block `first`, which an earlier stretch left at their places.
template <int kTokens>
[[gnu::always_inline]] static inline void LoadSums(const GemmArgs& args, int64_t token,
                                                   int64_t first, PanelSums<kTokens>& acc) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const float* out = args.out + (token + t) * args.out_stride;
    acc[t][0] = first == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(out);
    acc[t][1] = first == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(out + kLanes);
  }
}

// Lines of a panel are asked for before they are needed: the hardware's prefetch ends at every
// page. Past a matrix's end this asks for lines that nobody needs, which is harmless.
template <int64_t kBytes>
[[gnu::always_inline]] static inline void Prefetch(const std::byte* block) {
#pragma GCC unroll 16
  for (int64_t at = 0; at < kBytes; at += kVectorBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(block + at), _MM_HINT_T0);
  }
}

// How far ahead, where a panel is read once. With both cores of the machine reading, weights of 4,
// 8 and 12 bits came 5 to 8% faster than at twice the distance, and no slower than at half of it.
static constexpr int64_t kPrefetchBytes = 2048;

}  // namespace tenon::avx2

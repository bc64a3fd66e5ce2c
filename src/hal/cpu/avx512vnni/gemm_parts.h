// Reading a packed k-block (hal/kernel_set.h) into zmm registers: shared by the VNNI and the AMX
// matrix products. Internal linkage throughout, see vectors.h.
#pragma once

#include "hal/cpu/avx512vnni/vectors.h"
#include "hal/cpu/panel_layout.h"

namespace tenon::avx512vnni {

// Vectors of 16 rows x 4 k in a k-block, and in one group of 16 k.
static constexpr int kBlockSteps = 8;
static constexpr int kGroupSteps = 4;

static inline __m512i LoadVector(const std::byte* at) {
  return _mm512_loadu_si512(reinterpret_cast<const void*>(at));
}

// The codebook's values moved up by 128 in each 128-bit lane; zero for kinds without one.
template <PackedKind kKind>
static inline __m512i LoadCodebook(const int8_t* codebook) {
  if constexpr (!LayoutOf(kKind).codebook) {
    return _mm512_setzero_si512();
  } else {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook));
    return _mm512_xor_si512(_mm512_broadcast_i32x4(values), _mm512_set1_epi8(-128));
  }
}

// Bits above the nibble of step kStep, in place; zero for kinds without.
template <PackedKind kKind, int kStep>
static inline __m512i HighBits(const std::byte* block) {
  constexpr HighBitsPlace kPlace = PlaceOfHighBits(LayoutOf(kKind).high_bits, kStep);
  __m512i bits = LoadVector(block + kPlace.offset);
  if constexpr (kPlace.shift >= 0)
    bits = _mm512_slli_epi16(bits, static_cast<unsigned>(kPlace.shift));
  else
    bits = _mm512_srli_epi16(bits, static_cast<unsigned>(-kPlace.shift));
  return _mm512_and_si512(bits, _mm512_set1_epi8(static_cast<char>(kPlace.mask)));
}

template <PackedKind kKind, int kStep = 0>
static inline void AddHighBits(const std::byte* block, __m512i* steps) {
  const __m512i high = HighBits<kKind, kStep>(block);
  steps[kStep] = _mm512_or_si512(steps[kStep], high);
  if constexpr (kStep + 1 < kBlockSteps)
    AddHighBits<kKind, kStep + 1>(block, steps);
}

// steps[s] = the unsigned bytes of k 4s..4s+3 of all rows.
template <PackedKind kKind>
static inline void LoadSteps(const std::byte* block, __m512i codebook, __m512i* steps) {
  if constexpr (!LayoutOf(kKind).nibbles) {
    for (int s = 0; s < kBlockSteps; ++s)
      steps[s] = LoadVector(block + s * 64);
    return;
  }
  const __m512i low_mask = _mm512_set1_epi8(15);
  for (int v = 0; v < kGroupSteps; ++v) {
    const __m512i pairs = LoadVector(block + v * 64);
    steps[v] = _mm512_and_si512(pairs, low_mask);
    steps[v + kGroupSteps] = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), low_mask);
  }
  if constexpr (LayoutOf(kKind).high_bits > 0)
    AddHighBits<kKind>(block, steps);
  if constexpr (LayoutOf(kKind).codebook) {
    for (int s = 0; s < kBlockSteps; ++s)
      steps[s] = _mm512_shuffle_epi8(codebook, steps[s]);
  }
}

// The d and m of 16 rows for one group of 16 k.
struct GroupScales {
  __m512 d;
  __m512 m;
};

template <PackedKind kKind>
static inline GroupScales LoadScales(const std::byte* block, int64_t group) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  const std::byte* scales = block + kLayout.scales_offset + group * kLayout.group_stride;
  if constexpr (kLayout.stored_minima) {
    return {LoadHalfs(scales), LoadHalfs(scales + kLayout.minima_offset)};
  } else {
    const __m512 d = kLayout.codebook ? _mm512_loadu_ps(reinterpret_cast<const float*>(scales))
                                      : LoadHalfs(scales);
    return {d, _mm512_mul_ps(_mm512_set1_ps(static_cast<float>(-kLayout.zero_point)), d)};
  }
}

// The scales of both groups of a block; `second` is only used where they differ.
struct BlockScales {
  GroupScales first;
  GroupScales second;
};

template <PackedKind kKind>
static inline BlockScales LoadBlockScales(const std::byte* block) {
  const GroupScales first = LoadScales<kKind>(block, 0);
  return {first, LayoutOf(kKind).group_scales ? LoadScales<kKind>(block, 1) : first};
}

// acc + dot * multiplier. Dots of nibbles fit 16 bits, so the upper halves of their lanes are only
// signs, which a multiplier of zero takes out.
template <PackedKind kKind>
static inline __m512i AddMultiple(__m512i acc, __m512i dot, int16_t multiplier) {
  constexpr PanelLayout kLayout = LayoutOf(kKind);
  const __m512i factor = _mm512_set1_epi32(multiplier);
  if constexpr (kLayout.nibbles && kLayout.high_bits == 0 && !kLayout.codebook)
    return _mm512_dpwssd_epi32(acc, dot, factor);
  else
    return _mm512_add_epi32(acc, _mm512_mullo_epi32(dot, factor));
}

// acc = fma(d * step, product, acc); acc = fma(m, sum, acc).
static inline __m512 AddTerms(__m512 acc, const GroupScales& scales, float step, __m512i product,
                              float sum) {
  const __m512 factor = _mm512_mul_ps(scales.d, _mm512_set1_ps(step));
  acc = _mm512_fmadd_ps(factor, _mm512_cvtepi32_ps(product), acc);
  return _mm512_fmadd_ps(scales.m, _mm512_set1_ps(sum), acc);
}

// A block of a row of activations, in both forms.
struct Activations {
  const WholeBlock* whole;
  const GroupsBlock* groups;
};

static inline Activations ActivationsAt(const std::byte* row, int64_t k, int64_t index) {
  return {reinterpret_cast<const WholeBlock*>(row) + index,
          reinterpret_cast<const GroupsBlock*>(row + GroupsBlocksOffset(k)) + index};
}

// A block's contribution, with the exact dot products of its two groups.
template <PackedKind kKind>
static inline __m512 AddBlock(__m512 acc, const BlockScales& scales, const Activations& x,
                              __m512i first, __m512i second) {
  if constexpr (LayoutOf(kKind).group_scales) {
    acc = AddTerms(acc, scales.first, x.groups->step[0], first, x.groups->sum[0]);
    return AddTerms(acc, scales.second, x.groups->step[1], second, x.groups->sum[1]);
  } else {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i product = AddMultiple<kKind>(zero, first, x.whole->multiplier[0]);
    const __m512i both = AddMultiple<kKind>(product, second, x.whole->multiplier[1]);
    return AddTerms(acc, scales.first, x.whole->scale, both, x.whole->sum);
  }
}

}  // namespace tenon::avx512vnni

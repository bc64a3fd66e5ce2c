// k-blocks of a panel as vpmaddubsw takes them: values as unsigned bytes, scales as floats, either
// in registers or unpacked into memory, once for many tokens.
//
// Internal linkage throughout (hal/cpu/panel_layout.h).
#pragma once

#include "hal/cpu/avx2/gemm_parts.h"

namespace tenon::avx2 {

// How a kind is multiplied, and where the parts of an unpacked block lie:
//   bytes [kBlockSteps][parts][16 rows][4], float d[16], float m[16]
// Bytes 4r..4r+3 of step s are row r's values 2s, 2s+1 (group 0) and 16+2s, 16+2s+1 (group 1), as
// WholeBlock::pairs has them.
struct UnpackedLayout {
  // 2: bytes above 6 bits, as low and high nibbles; 1: as they are. Products of bytes would
  // saturate the 16 bits that vpmaddubsw has for the sum of two.
  int parts;
  // Steps whose products are added in 16 bits: 8 * 2 * 15 * 127 = 30480 with nibbles,
  // 4 * 2 * 31 * 127 = 31496 with five bits.
  int steps_in_16_bits;
  int64_t scales_offset;
  int64_t bytes;
};

static constexpr UnpackedLayout UnpackedLayoutOf(PackedKind kind) {
  const PanelLayout packed = LayoutOf(kind);
  const bool whole_bytes = !packed.nibbles || packed.codebook;
  const int parts = whole_bytes ? 2 : 1;
  const int64_t quants = kBlockSteps * parts * kVectorBytes;
  return {parts, kBlockSteps >> packed.high_bits, quants, quants + 2 * kPanelRows * 4};
}

// The values of step `step` of eight rows. In pairs, even 16-bit lanes are of group 0 and odd ones
// of group 1.
template <PackedKind kKind>
[[gnu::always_inline]] static inline __m256i StepOf(const std::byte* weights, int step,
                                                    __m256i codebook) {
  const Quads q = LoadQuads<kKind>(weights, step / 2, codebook);
  return step % 2 == 0 ? _mm256_blend_epi16(q.first, _mm256_slli_epi32(q.second, 16), 0xaa)
                       : _mm256_blend_epi16(_mm256_srli_epi32(q.first, 16), q.second, 0xaa);
}

// Part `part` of values: themselves, or their low (0) or high (1) nibbles.
template <PackedKind kKind>
[[gnu::always_inline]] static inline __m256i PartOf(__m256i values, int part) {
  if constexpr (UnpackedLayoutOf(kKind).parts == 1) {
    return values;
  }
  const __m256i shifted = part == 0 ? values : _mm256_srli_epi16(values, 4);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
}

// A packed k-block, unpacked in registers: for few tokens.
template <PackedKind kKind>
struct PackedBlock {
  const std::byte* at;
  __m256i codebook;

  [[gnu::always_inline]] __m256i Values(int step, int half, int part) const {
    return PartOf<kKind>(StepOf<kKind>(at + half * kHalfBytes, step, codebook), part);
  }
  [[gnu::always_inline]] __m256 D(int half) const { return LoadD<kKind>(at, 0, half); }
  [[gnu::always_inline]] __m256 M(int half) const { return LoadM<kKind>(at, 0, half); }
};

// The same after Unpack, which wrote it to `at`, aligned to 32.
template <PackedKind kKind>
struct UnpackedBlock {
  const std::byte* at;

  [[gnu::always_inline]] __m256i Values(int step, int half, int part) const {
    return LoadVector(at + (step * UnpackedLayoutOf(kKind).parts + part) * kVectorBytes +
                      half * kHalfBytes);
  }
  [[gnu::always_inline]] __m256 D(int half) const {
    return LoadF32(at + UnpackedLayoutOf(kKind).scales_offset + half * 32);
  }
  [[gnu::always_inline]] __m256 M(int half) const {
    return LoadF32(at + UnpackedLayoutOf(kKind).scales_offset + 64 + half * 32);
  }
};

template <PackedKind kKind>
[[gnu::always_inline]] static inline void Unpack(const PackedBlock<kKind>& block, std::byte* out) {
  constexpr UnpackedLayout kLayout = UnpackedLayoutOf(kKind);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 8
    for (int step = 0; step < kBlockSteps; ++step) {
#pragma GCC unroll 2
      for (int part = 0; part < kLayout.parts; ++part) {
        StoreVector(out + (step * kLayout.parts + part) * kVectorBytes + half * kHalfBytes,
                    block.Values(step, half, part));
      }
    }
  }
  auto* floats = reinterpret_cast<float*>(out + kLayout.scales_offset);
  for (int half = 0; half < 2; ++half) {
    _mm256_store_ps(floats + half * kLanes, block.D(half));
    _mm256_store_ps(floats + kPanelRows + half * kLanes, block.M(half));
  }
}

}  // namespace tenon::avx2

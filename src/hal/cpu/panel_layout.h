// Where the parts of a packed k-block lie (the layouts of hal/kernel_set.h), as constants for the
// kernel files. Everything here is constexpr with internal linkage: kernel objects must not hold
// weak symbols, or the linker could pick a copy built for a newer CPU.
#pragma once

#include <cstdint>

#include "hal/kernel_set.h"

namespace tenon {

struct PanelLayout {
  bool nibbles;           // two values a byte, as far as their low four bits go
  int high_bits;          // bits of a value above the nibble
  bool codebook;          // values looked up (and moved up by 128), float scales
  bool stored_minima;     // m is stored; otherwise m = -zero_point * d
  bool group_scales;      // one d (and m) per 16 values of k rather than per 32
  int zero_point;         // for kinds without stored minima
  int64_t scales_offset;  // bytes of quants before the scales
  int64_t group_stride;   // bytes from the scales of k 0..15 to those of k 16..31, 0 if shared
  int64_t minima_offset;  // from a group's scales to its minima
  int64_t block_bytes;
};

// Where the high bits of values lie: after the nibbles.
static constexpr int64_t kHighBitsOffset = kPanelRows * 16;

// The place of step `step`'s (0..7) high bits: which of the vectors that follow the nibbles, and
// how far its bytes are shifted left (negative: right) to bring them above the nibble.
struct HighBitsPlace {
  int64_t offset;
  int shift;
  uint8_t mask;
};

static constexpr HighBitsPlace PlaceOfHighBits(int high_bits, int step) {
  if (high_bits == 1)
    return {kHighBitsOffset, 4 - step, 0x10};
  return {kHighBitsOffset + step / 4 * kPanelRows * 4, 4 - step % 4 * 2, 0x30};
}

static constexpr PanelLayout LayoutOf(PackedKind kind) {
  constexpr int64_t kHalfs = kPanelRows * 2;  // bytes of 16 f16
  constexpr int64_t kU4 = kPanelRows * 16;    // bytes of 16 x 32 nibbles
  constexpr int64_t kU8 = kPanelRows * 32;
  constexpr int64_t kBitPlane = kPanelRows * 4;  // bytes of 16 x 32 bits
  const int64_t bytes = PackedBlockBytes(kind);
  switch (kind) {
    case PackedKind::kU4S32:
      return {true, 0, false, false, false, 8, kU4, 0, 0, bytes};
    case PackedKind::kU4S32M:
      return {true, 0, false, true, false, 0, kU4, 0, kHalfs, bytes};
    case PackedKind::kU4S16M:
      return {true, 0, false, true, true, 0, kU4, 2 * kHalfs, kHalfs, bytes};
    case PackedKind::kCodebook4S32:
      return {true, 0, true, false, false, 128, kU4, 0, 0, bytes};
    case PackedKind::kU5S32:
      return {true, 1, false, false, false, 16, kU4 + kBitPlane, 0, 0, bytes};
    case PackedKind::kU5S32M:
      return {true, 1, false, true, false, 0, kU4 + kBitPlane, 0, kHalfs, bytes};
    case PackedKind::kU6S16:
      return {true, 2, false, false, true, 32, kU4 + 2 * kBitPlane, kHalfs, 0, bytes};
    case PackedKind::kU8S32:
      return {false, 0, false, false, false, 128, kU8, 0, 0, bytes};
    default:
      return {false, 0, false, false, false, 0, 0, 0, 0, bytes};
  }
}

}  // namespace tenon

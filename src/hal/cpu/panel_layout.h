// Where the parts of a packed k-block lie (the layouts of hal/kernel_set.h), as constants for the
// kernel files. Everything here is constexpr with internal linkage: kernel objects must not hold
// weak symbols, or the linker could pick a copy built for a newer CPU.
#pragma once

#include <cstdint>

#include "hal/kernel_set.h"

namespace tenon {

struct PanelLayout {
  bool nibbles;           // two values a byte
  bool codebook;          // values looked up, float scales, no minima
  bool stored_minima;     // m is stored; otherwise m = -zero_point * d
  bool group_scales;      // one d (and m) per 16 values of k rather than per 32
  int zero_point;         // for kinds without stored minima
  int64_t scales_offset;  // bytes of quants before the scales
  int64_t group_stride;   // bytes from the scales of k 0..15 to those of k 16..31, 0 if shared
  int64_t minima_offset;  // from a group's scales to its minima
  int64_t block_bytes;
};

static constexpr PanelLayout LayoutOf(PackedKind kind) {
  constexpr int64_t kHalfs = kPanelRows * 2;  // bytes of 16 f16
  constexpr int64_t kU4 = kPanelRows * 16;    // bytes of 16 x 32 nibbles
  constexpr int64_t kU8 = kPanelRows * 32;
  const int64_t bytes = PackedBlockBytes(kind);
  switch (kind) {
    case PackedKind::kU4S32:
      return {true, false, false, false, 8, kU4, 0, 0, bytes};
    case PackedKind::kU4S32M:
      return {true, false, true, false, 0, kU4, 0, kHalfs, bytes};
    case PackedKind::kU4S16M:
      return {true, false, true, true, 0, kU4, 2 * kHalfs, kHalfs, bytes};
    case PackedKind::kCodebook4S32:
      return {true, true, false, false, 0, kU4, 0, 0, bytes};
    case PackedKind::kU8S32:
      return {false, false, false, false, 128, kU8, 0, 0, bytes};
    case PackedKind::kU8S32M:
      return {false, false, true, false, 0, kU8, 0, kHalfs, bytes};
    case PackedKind::kU8S16:
      return {false, false, false, true, 128, kU8, kHalfs, 0, bytes};
    default:
      return {false, false, false, false, 0, 0, 0, 0, bytes};
  }
}

}  // namespace tenon

// Parts of a panel of PackedKind::kF12S32, and going through it in unpacked stretches. Internal
// linkage (hal/cpu/panel_layout.h).
#pragma once

#include "hal/kernel_set.h"

namespace tenon {

// Bytes into a block.
static constexpr int64_t kF12Nibbles = kPanelRows * 32;
static constexpr int64_t kF12Exponents = kF12Nibbles + kPanelRows * 16;

// A block that is unpacked: the words of kI14S32, all of them levels, then 16 floats d.
static constexpr int64_t kUnpackedScales = kPanelRows * 64;
static constexpr int64_t kUnpackedBlockBytes = kUnpackedScales + kPanelRows * 4;

// Consecutive blocks of a panel, packed or unpacked.
struct Stretch {
  const std::byte* blocks;
  int64_t first;  // of them, counted from the panel's
  int64_t count;
  const std::byte* next;  // packed bytes to ask for meanwhile, as many as these were
};

// What lies `ahead` bytes further is asked for.
static inline Stretch WholePanel(const GemmArgs& args, int64_t ahead = 0) {
  return {args.panel, 0, args.k / kActivationBlockValues, args.panel + ahead};
}

// Blocks that are unpacked at a time: 10 KB, which leave room for the rows in the first cache.
static constexpr int64_t kStretchBlocks = 9;

// Unpacks stretch after stretch by unpack(block, out) and multiplies each by multiply(stretch).
// Sums go on from the second stretch's on.
template <class Unpack, class Multiply>
static inline void RunUnpacked(const GemmArgs& args, Unpack unpack, Multiply multiply) {
  constexpr int64_t kBytes = PackedBlockBytes(PackedKind::kF12S32);
  const int64_t blocks = args.k / kActivationBlockValues;
  alignas(64) std::byte unpacked[kStretchBlocks * kUnpackedBlockBytes];
  for (int64_t first = 0; first < blocks; first += kStretchBlocks) {
    const int64_t count = blocks - first < kStretchBlocks ? blocks - first : kStretchBlocks;
    for (int64_t b = 0; b < count; ++b)
      unpack(args.panel + (first + b) * kBytes, unpacked + b * kUnpackedBlockBytes);
    multiply(Stretch{unpacked, first, count, args.panel + (first + count) * kBytes});
  }
}

}  // namespace tenon

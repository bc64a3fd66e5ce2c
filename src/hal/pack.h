// Packing: from a tensor's rows as the file stores them to the panels that GEMM kernels read.
//
// Exact except for the two-level K-quants, whose products of scales (d*sc, dmin*m) are rounded to
// f16: relative 2^-11, far below the rounding of the activations they meet; and for F16 and BF16 in
// blocks, which are rounded to multiples of their block's d: values of a quarter of the block's
// largest or more stay as they are in F16, of 1/32 or more in BF16, smaller ones move by d / 2 or
// less, 2^-13 of the largest.
// Threading: free functions over disjoint outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hal/kernel_set.h"
#include "tensor/dtype.h"

namespace tenon {

// Packed bytes outlive the process in files (engine/plan/weight_cache.h). To be raised whenever
// PackPanel gives other bytes for the same rows.
inline constexpr int kPackedLayoutVersion = 3;

// The kind that a file's dtype in rows of k values is packed to by PackPanel.
PackedKind PackedKindFor(DType dtype, int64_t k);

// The codebook of a dtype with kCodebook4S32 (IQ4_NL, IQ4_XS, MXFP4: doubled values, scale halved),
// null for others.
const int8_t* CodebookFor(DType dtype);

// The rows of one panel as the file stores them.
struct PanelSource {
  DType dtype = DType::kF32;
  const std::byte* rows = nullptr;  // [row_count] rows of DTypeRowBytes(dtype, k) bytes
  int64_t row_count = 0;            // 1..16; missing rows are packed as zeros
  int64_t k = 0;
};

// Packs one panel to PackedKindFor(dtype, k). REQUIRES: out.size() == PackedPanelBytes(kind, k).
void PackPanel(const PanelSource& source, std::span<std::byte> out);

// Packs one panel of F16 or BF16 to kF12S32, with the levels that kI14S32 has: F16 weights that
// come from BF16 have no more bits. False: some have, the panel is then not to be used. REQUIRES:
// k % 32 == 0, out.size() == PackedPanelBytes(kF12S32, k).
[[nodiscard]] bool PackPanelF12(const PanelSource& source, std::span<std::byte> out);

// Dequantizes exactly and packs to kF32 (the reference mode).
void PackPanelF32(const PanelSource& source, std::span<std::byte> out);

}  // namespace tenon

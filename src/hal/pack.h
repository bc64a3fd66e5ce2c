// Packing: from a tensor's rows as the file stores them to the panels that GEMM kernels read.
//
// Exact for every DType except the two-level K-quants, whose products of scales (d*sc, dmin*m) are
// rounded to f16: relative 2^-11, far below the rounding of the activations they meet.
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
inline constexpr int kPackedLayoutVersion = 1;

// The kind that a file's dtype is packed to.
PackedKind PackedKindFor(DType dtype);

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

// Packs one panel to PackedKindFor(dtype). REQUIRES: out.size() == PackedPanelBytes(kind, k).
void PackPanel(const PanelSource& source, std::span<std::byte> out);

// Dequantizes exactly and packs to kF32 (the reference mode).
void PackPanelF32(const PanelSource& source, std::span<std::byte> out);

}  // namespace tenon

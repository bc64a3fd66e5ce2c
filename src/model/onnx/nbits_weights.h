// Weights of com.microsoft's MatMulNBits as rows of block formats that the engine packs.
//
// A matrix [N, K] has blocks of `block` values along K; a block's values lie packed from the low
// bits on, in order, and a row's last block is padded. w = scale * (q - zero), zero 2^(bits-1)
// where there are none (ONNX Runtime contrib operators, MatMulNBits). Threading: free functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/element_type.h"

namespace tenon {

struct NbitsMatrix {
  int64_t rows = 0;     // N
  int64_t columns = 0;  // K
  int64_t bits = 4;
  int64_t block = 32;
  std::span<const std::byte> values;  // [rows, blocks, block * bits / 8]
  ElementType scale_type = ElementType::kF32;
  std::span<const std::byte> scales;  // [rows, blocks], F32 or F16
  // [rows, ceil(blocks * bits / 8)] packed like values, or of scale_type [rows, blocks]; or empty.
  std::span<const std::byte> zeros;
  ElementType zero_type = ElementType::kU8;

  int64_t blocks() const { return (columns + block - 1) / block; }
};

// Checks that sizes fit each other; an error says which does not.
Status CheckNbits(const NbitsMatrix& matrix);

// The format that holds the matrix: Q4_0 without zero points, Q4_1 with them, each for 4 bits and
// blocks of a multiple of 32; F32 for anything else. Exact but for scales that are F32 and for
// Q4_1's minima, which are rounded to f16 (2^-11 relative).
DType NbitsDType(const NbitsMatrix& matrix);

// The rows in that format. REQUIRES: CheckNbits.
Result<Buffer> ConvertNbits(const NbitsMatrix& matrix, DType dtype);

}  // namespace tenon

// Matrices of 8-bit floats with their scales, as Hugging Face checkpoints store them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/safetensors/safetensors_reader.h"
#include "tensor/buffer.h"

namespace tenon {

struct Fp8Weights {
  SafetensorsType type = SafetensorsType::kF8E4M3;
  int64_t rows = 0;
  int64_t columns = 0;
  std::span<const std::byte> bytes;  // [rows, columns]
  // A value is multiplied by its scale. One for all ([] or [1]), for each row ([rows] or [rows,
  // 1]), or for each block; no scales: 1.
  std::vector<int64_t> scale_shape;
  std::vector<float> scales;
  int64_t block_rows = 128;
  int64_t block_columns = 128;
};

// The products, rounded to BF16 (exact where scales are powers of two). Fails when the scales'
// shape fits none of these kinds.
Result<Buffer> Fp8ToBf16(const Fp8Weights& weights);

}  // namespace tenon

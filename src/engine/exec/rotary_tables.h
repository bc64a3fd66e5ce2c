// RotaryTables: cos and sin of every rotary angle of one step, computed once for all layers.
//
// RoPE: arXiv 2104.09864. Angles follow the reference implementation in float: the inverse
// frequency and its product with the position are rounded to float, since that is what models were
// trained with. Scaling rules: ModelConfig's RopeScaling. Threading: Compute from one thread, then
// const.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/ops/attrs.h"
#include "hal/thread_pool.h"
#include "tensor/buffer.h"

namespace tenon {

// Radians per position of each pair, [rotary_dim / 2]. `factors` (may be empty) divide them.
std::vector<float> RotaryFrequencies(const RopeParams& rope, std::span<const float> factors);

// What cos and sin are multiplied by (YaRN's attention factor; 1 for the other rules).
float RotaryMagnitude(const RopeParams& rope);

class RotaryTables {
 public:
  // The index of the table for these parameters; equal parameters share one. Before Reserve.
  int Add(const RopeParams& rope, std::span<const float> factors);

  // Memory for steps of up to `tokens` tokens.
  int64_t ReserveBytes(int64_t tokens) const;
  Status Reserve(int64_t tokens);

  // Fills all tables. REQUIRES: positions.size() <= the reserved tokens.
  void Compute(std::span<const int32_t> positions, ThreadPool& pool);

  // Of the step's token `row`, [pairs(table)].
  const float* Cos(int table, int64_t row) const;
  const float* Sin(int table, int64_t row) const;
  int64_t pairs(int table) const;

 private:
  struct Table {
    RopeParams rope;
    std::vector<float> factors;
    std::vector<float> frequencies;
    float magnitude = 1.0F;
    int64_t offset = 0;  // floats into buffer_; a row is pairs cosines, then pairs sines
  };
  void FillRow(const Table& table, int64_t row, int32_t position);

  std::vector<Table> tables_;
  Buffer buffer_;
};

}  // namespace tenon

// Batch: the tokens of one step, a ragged list from any number of sequences. Prefill, decode and
// every mix of them are the same thing: a token knows its sequence and its position.
#pragma once

#include <cstdint>
#include <span>

namespace tenon {

// Views only; everything must outlive the step. Tokens of one sequence stand in ascending position.
struct Batch {
  std::span<const int32_t> tokens;     // [N] ids
  std::span<const int32_t> positions;  // [N] position of each token in its sequence
  std::span<const int32_t> sequences;  // [N] index into block_tables
  // For each sequence its pool blocks; they cover every position of the batch.
  std::span<const std::span<const int32_t>> block_tables;
  std::span<const int32_t> output_rows;  // [R] indices into tokens, whose logits are wanted
};

}  // namespace tenon

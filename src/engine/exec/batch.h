// Batch: the tokens of one step, a ragged list from any number of sequences. Prefill, decode and
// every mix of them are the same thing: a token knows its sequence and its position.
#pragma once

#include <cstdint>
#include <span>

namespace tenon {

// How a step reads packed KV blocks. Only KvType::kHier knows a difference: kDraft leaves the lower
// half of each element unread, a cache of 4 bits; its logits are a draft's. What a draft writes is
// overwritten by the step that verifies it, which reads and writes as if there had been no draft.
enum class KvReader : uint8_t { kFull, kDraft };

// Views only; everything must outlive the step. Tokens of one sequence stand in ascending position.
struct Batch {
  std::span<const int32_t> tokens;     // [N] ids
  std::span<const int32_t> positions;  // [N] position of each token in its sequence
  std::span<const int32_t> sequences;  // [N] index into block_tables
  // For each sequence its pool blocks; they cover every position of the batch.
  std::span<const std::span<const int32_t>> block_tables;
  std::span<const int32_t> output_rows;  // [R] indices into tokens, whose logits are wanted
  KvReader kv_reader = KvReader::kFull;
};

}  // namespace tenon

// BatchBuilder: gathers the tokens of one step. Owns the arrays that a Batch points into; reused
// from step to step without allocating once warm. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/exec/batch.h"

namespace tenon {

enum class Logits : uint8_t { kNo, kYes };

class BatchBuilder {
 public:
  void Clear();

  // A sequence of this step; returns its index for AddToken. The table must outlive the step.
  int32_t AddSequence(std::span<const int32_t> block_table);
  void AddToken(int32_t sequence, int32_t token, int64_t position, Logits logits);

  // Tokens at consecutive positions; logits for the last one only, or for all or none.
  enum class Outputs : uint8_t { kNone, kLast, kAll };
  void AddTokens(int32_t sequence, std::span<const int32_t> tokens, int64_t first_position,
                 Outputs outputs);

  size_t tokens() const { return tokens_.size(); }
  // Valid until the next change.
  Batch batch() const;

 private:
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> sequences_;
  std::vector<std::span<const int32_t>> block_tables_;
  std::vector<int32_t> output_rows_;
};

}  // namespace tenon

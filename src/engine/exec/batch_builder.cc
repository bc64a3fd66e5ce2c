#include "engine/exec/batch_builder.h"

namespace tenon {

void BatchBuilder::Clear() {
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
  block_tables_.clear();
  output_rows_.clear();
}

int32_t BatchBuilder::AddSequence(std::span<const int32_t> block_table) {
  block_tables_.push_back(block_table);
  return static_cast<int32_t>(block_tables_.size()) - 1;
}

void BatchBuilder::AddToken(int32_t sequence, int32_t token, int64_t position, Logits logits) {
  if (logits == Logits::kYes)
    output_rows_.push_back(static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  positions_.push_back(static_cast<int32_t>(position));
  sequences_.push_back(sequence);
}

void BatchBuilder::AddTokens(int32_t sequence, std::span<const int32_t> tokens,
                             int64_t first_position, Outputs outputs) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool last = i + 1 == tokens.size();
    const bool wanted = outputs == Outputs::kAll || (outputs == Outputs::kLast && last);
    AddToken(sequence, tokens[i], first_position + static_cast<int64_t>(i),
             wanted ? Logits::kYes : Logits::kNo);
  }
}

Batch BatchBuilder::batch() const {
  return {tokens_, positions_, sequences_, block_tables_, output_rows_};
}

}  // namespace tenon

#include "engine/exec/step_blocks.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon {

Status StepBlocks::Prepare(const Batch& batch, KvPool& pool) {
  TENON_RETURN_IF_ERROR(List(batch));
  for (size_t i = 0; i < last_of_.size(); ++i)
    DropOld(batch, pool, static_cast<int32_t>(i));
  in_workspace_ = 0;
  full_.clear();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    TENON_RETURN_IF_ERROR(Place(batch, pool, blocks_[i]));
    if (blocks_[i].IsFull())
      full_.push_back(static_cast<int32_t>(i));
  }
  return {};
}

Status StepBlocks::List(const Batch& batch) {
  blocks_.clear();
  block_of_row_.clear();
  first_of_.assign(batch.block_tables.size(), -1);
  last_of_.assign(batch.block_tables.size(), -1);
  for (size_t row = 0; row < batch.tokens.size(); ++row) {
    const int32_t sequence = batch.sequences[row];
    const int64_t position = batch.positions[row];
    int32_t& last = last_of_[static_cast<size_t>(sequence)];
    if (last >= 0) {
      const StepBlock& before = blocks_[static_cast<size_t>(last)];
      const int64_t expected = before.index * kKvBlockTokens + before.end_slot;
      if (position != expected) {
        return InvalidArgument(
            fmt::format("position {} of sequence {}, expected {}: a packed KV cache takes tokens "
                        "in a row",
                        position, sequence, expected),
            "positions");
      }
    }
    const int64_t slot = position % kKvBlockTokens;
    if (last < 0 || slot == 0) {
      StepBlock block;
      block.sequence = sequence;
      block.index = position / kKvBlockTokens;
      block.block = batch.block_tables[static_cast<size_t>(sequence)]
                                      [static_cast<size_t>(position / kKvBlockTokens)];
      block.first_slot = slot;
      last = static_cast<int32_t>(blocks_.size());
      if (first_of_[static_cast<size_t>(sequence)] < 0)
        first_of_[static_cast<size_t>(sequence)] = last;
      blocks_.push_back(block);
    }
    blocks_[static_cast<size_t>(last)].end_slot = slot + 1;
    block_of_row_.push_back(last);
  }
  return {};
}

// Copies that earlier steps left, of blocks before those that may still be written again.
void StepBlocks::DropOld(const Batch& batch, KvPool& pool, int32_t sequence) {
  const auto at = static_cast<size_t>(sequence);
  if (last_of_[at] < 0)
    return;
  const int64_t begun = blocks_[static_cast<size_t>(first_of_[at])].index;
  const int64_t last = blocks_[static_cast<size_t>(last_of_[at])].index;
  for (int64_t i = std::min(begun - 1, last - 2); i >= 1; --i) {
    const BlockIndex block = batch.block_tables[at][static_cast<size_t>(i)];
    if (pool.FloatCopy(block) < 0)
      return;  // and none before it
    pool.DropFloatCopy(block);
  }
}

Status StepBlocks::Place(const Batch& batch, KvPool& pool, StepBlock& block) {
  const auto at = static_cast<size_t>(block.sequence);
  const int64_t last = blocks_[static_cast<size_t>(last_of_[at])].index;
  const bool begun_before = block.first_slot != 0;
  if (begun_before && pool.FloatCopy(block.block) < 0) {
    return InvalidArgument(
        fmt::format("position {} of sequence {} lies within a block that is packed; a sequence of "
                    "a packed KV cache goes on from position {} or {}",
                    block.index * kKvBlockTokens + block.first_slot, block.sequence,
                    block.index * kKvBlockTokens, (block.index + 1) * kKvBlockTokens),
        "positions");
  }
  if (block.index > 0 && &block == &blocks_[static_cast<size_t>(first_of_[at])] &&
      pool.FloatCopy(batch.block_tables[at][0]) < 0) {
    return InvalidArgument(
        fmt::format("the first block of sequence {} was not written by a step", block.sequence),
        "block_tables");
  }
  const bool outlives = block.index == 0 || block.index >= last - 1 || begun_before;
  if (!outlives) {
    block.workspace = in_workspace_++;
    return {};
  }
  if (!pool.TakeFloatCopy(block.block)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("more than {} sequences with a packed KV cache at a time",
                                 pool.config().float_copies / kCopiesOfSequence),
                     "KV cache");
  }
  block.copy = pool.FloatCopy(block.block);
  return {};
}

}  // namespace tenon

// StepBlocks: which blocks of a packed KV cache a step writes to, and where their f16 form lies.
//
// A packed block is made from 32 tokens at once (hal/kv_block.h). So a step writes f16 first, and
// packs every block whose last slot it wrote. A token reads its own block and the sequence's first
// one in f16 and all others packed: a rule of its position alone, the same for every chunking, and
// the same for a sequence that took its beginning over from another one, since it takes over whole
// blocks and their first one's f16 form.
//
// The f16 form of a block lies in a float copy of the pool (engine/kv/kv_pool.h) when it must
// outlive the step: the first block of a sequence, the last one that was written, and the one
// before, so that up to 32 tokens can be dropped and written again without ever reading back what
// was packed. For blocks that a prompt's chunk runs through, it is in the step's workspace.
//
// Owns its lists, reused from step to step. Threading: Prepare from one thread, reading from any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/exec/batch.h"
#include "engine/kv/kv_pool.h"

namespace tenon {

struct StepBlock {
  int32_t sequence = 0;  // of the batch
  int64_t index = 0;     // in its block table
  BlockIndex block = kNoBlock;
  int64_t first_slot = 0;
  int64_t end_slot = 0;    // one past the last slot written
  int32_t copy = -1;       // float copy, or:
  int32_t workspace = -1;  // number among the step's blocks in the workspace
  bool IsFull() const { return end_slot == kKvBlockTokens; }
};

class StepBlocks {
 public:
  // Blocks that one sequence can need float copies for: its first one, the one that the step begins
  // in, and the last two.
  static constexpr int32_t kCopiesOfSequence = 4;

  // Takes the float copies that the step needs and drops those that it makes needless. Fails,
  // naming the field, when positions of a sequence do not follow one another, or begin within a
  // block whose f16 form is gone, and with kResourceExhausted when all float copies are in use.
  Status Prepare(const Batch& batch, KvPool& pool);

  // In the order of the batch.
  std::span<const StepBlock> blocks() const { return blocks_; }
  const StepBlock& OfRow(int64_t row) const {
    return blocks_[static_cast<size_t>(block_of_row_[static_cast<size_t>(row)])];
  }
  // Indices of the blocks that the step completes.
  std::span<const int32_t> full() const { return full_; }

 private:
  Status List(const Batch& batch);
  Status Place(const Batch& batch, KvPool& pool, StepBlock& block);
  void DropOld(const Batch& batch, KvPool& pool, int32_t sequence);

  std::vector<StepBlock> blocks_;
  std::vector<int32_t> block_of_row_;  // [N]
  std::vector<int32_t> first_of_;      // [sequences] index into blocks_, or -1
  std::vector<int32_t> last_of_;
  std::vector<int32_t> full_;
  int32_t in_workspace_ = 0;
};

}  // namespace tenon

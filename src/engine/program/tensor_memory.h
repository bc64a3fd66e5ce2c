// TensorMemory: the memory of a running program's tensors, reused as tensors end.
//
// Owns its pieces, each aligned to a cache line; their sizes are rounded up so that a tensor of the
// next run finds the piece of the last one. Pieces that are free and fit nothing are given back to
// the system before all pieces take more than tensors ever did at one time. Threading: one thread
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"

namespace tenon {

enum class MemoryReuse : uint8_t {
  kByLifetime,  // what is released is given out again
  // The peak is counted as if every piece were new until Clear, as in a program without liveness.
  // Memory is given out again all the same: large programs have no room for the truth.
  kCountedAsNew,
};

class TensorMemory {
 public:
  // At most `limit` bytes are alive at a time.
  TensorMemory(int64_t limit, MemoryReuse reuse) : limit_(limit), reuse_(reuse) {}
  TensorMemory(TensorMemory&& other) noexcept = default;
  TensorMemory& operator=(TensorMemory&&) = delete;
  ~TensorMemory();

  // kResourceExhausted, with the numbers, beyond the limit.
  Result<std::byte*> Allocate(int64_t bytes);
  void Release(std::byte* piece);
  // Everything is released; peak and allocations start again.
  void Clear();

  int64_t live_bytes() const { return live_; }
  int64_t peak_bytes() const { return reuse_ == MemoryReuse::kCountedAsNew ? given_ : peak_; }
  int64_t held_bytes() const { return held_; }  // of all pieces, used or free

 private:
  struct Piece {
    int64_t bytes = 0;
    bool in_use = false;
  };
  void GiveBack(int64_t most_held);

  int64_t limit_;
  MemoryReuse reuse_;
  int64_t live_ = 0;
  int64_t given_ = 0;      // since Clear, in all
  int64_t peak_ = 0;       // of live_ since Clear
  int64_t most_live_ = 0;  // ever
  int64_t held_ = 0;
  std::map<std::byte*, Piece> pieces_;
  std::multimap<int64_t, std::byte*> free_;
};

}  // namespace tenon

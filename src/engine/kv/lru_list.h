// LruList: blocks in the order of their last use, by links in one array. Threading: one thread at a
// time.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kv/prefix_index.h"

namespace tenon {

class LruList {
 public:
  explicit LruList(int32_t blocks) : links_(static_cast<size_t>(blocks)) {}

  // REQUIRES: not in the list.
  void PushBack(BlockIndex block) {
    link(block) = {last_, kNoBlock};
    (last_ == kNoBlock ? first_ : link(last_).next) = block;
    last_ = block;
    ++size_;
  }

  // REQUIRES: in the list.
  void Remove(BlockIndex block) {
    const Link gone = link(block);
    (gone.previous == kNoBlock ? first_ : link(gone.previous).next) = gone.next;
    (gone.next == kNoBlock ? last_ : link(gone.next).previous) = gone.previous;
    --size_;
  }

  // The least recently used one, or kNoBlock.
  BlockIndex front() const { return first_; }
  int32_t size() const { return size_; }

 private:
  struct Link {
    BlockIndex previous = kNoBlock;
    BlockIndex next = kNoBlock;
  };

  Link& link(BlockIndex block) { return links_[static_cast<size_t>(block)]; }

  std::vector<Link> links_;
  BlockIndex first_ = kNoBlock;
  BlockIndex last_ = kNoBlock;
  int32_t size_ = 0;
};

}  // namespace tenon

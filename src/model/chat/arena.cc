#include "model/chat/arena.h"

#include <algorithm>

namespace tenon::chat {

void* Arena::Take(size_t bytes) {
  constexpr size_t kAlign = alignof(std::max_align_t);
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  if (bytes > left_) {
    const size_t block = std::max(bytes, kBlockBytes);
    // operator new[] of bytes aligns to max_align_t.
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
    next_ = blocks_.back().get();
    left_ = block;
  }
  void* place = next_;
  next_ += bytes;
  left_ -= bytes;
  return place;
}

}  // namespace tenon::chat

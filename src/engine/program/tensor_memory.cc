#include "engine/program/tensor_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace tenon {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line
// A free piece serves a smaller tensor only when little of it is wasted.
constexpr int64_t kMostWaste = 4;  // a quarter

}  // namespace

TensorMemory::~TensorMemory() {
  for (const auto& [data, piece] : pieces_)
    ::operator delete(data, std::align_val_t{kAlignment});
}

Result<std::byte*> TensorMemory::Allocate(int64_t bytes) {
  const int64_t size = std::max(bytes, int64_t{1});
  if (size > limit_ - live_) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        fmt::format("a tensor of {} bytes, {} of at most {} are in use", bytes, live_, limit_));
  }
  const int64_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  std::byte* data = nullptr;
  const auto found = free_.lower_bound(rounded);
  if (found != free_.end() && found->first <= rounded + rounded / kMostWaste) {
    data = found->second;
    free_.erase(found);
  } else {
    GiveBack(std::max(most_live_, live_ + rounded) - rounded);
    data = static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(rounded), std::align_val_t{kAlignment}, std::nothrow));
    if (data == nullptr)
      return MakeError(ErrorCode::kResourceExhausted,
                       fmt::format("the system has no {} bytes for a tensor", rounded));
    pieces_[data].bytes = rounded;
    held_ += rounded;
  }
  Piece& piece = pieces_[data];
  piece.in_use = true;
  live_ += piece.bytes;
  given_ += piece.bytes;
  peak_ = std::max(peak_, live_);
  most_live_ = std::max(most_live_, live_);
  return data;
}

// The largest free pieces first.
void TensorMemory::GiveBack(int64_t most_held) {
  while (held_ > most_held && !free_.empty()) {
    const auto largest = std::prev(free_.end());
    held_ -= largest->first;
    pieces_.erase(largest->second);
    ::operator delete(largest->second, std::align_val_t{kAlignment});
    free_.erase(largest);
  }
}

void TensorMemory::Release(std::byte* data) {
  Piece& piece = pieces_[data];
  piece.in_use = false;
  live_ -= piece.bytes;
  free_.emplace(piece.bytes, data);
}

void TensorMemory::Clear() {
  for (auto& [data, piece] : pieces_) {
    if (piece.in_use)
      free_.emplace(piece.bytes, data);
    piece.in_use = false;
  }
  live_ = 0;
  given_ = 0;
  peak_ = 0;
}

}  // namespace tenon

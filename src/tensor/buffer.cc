#include "tensor/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>

namespace tenon {
namespace {

// A large page of x86-64, and of ARM with pages of 4 KiB.
constexpr size_t kLargePage = size_t{2} << 20;

std::byte* MapPages(size_t size) {
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

// Begins at a large page's boundary and asks for large pages: a sweep over weights then needs one
// address translation for 2 MiB rather than for 4 KiB, which on virtual machines costs more than
// the reading. The part after the last whole large page has ordinary ones, so nothing is wasted.
std::byte* MapLargePages(size_t size) {
  if (size > std::numeric_limits<size_t>::max() - kLargePage)
    return nullptr;
  std::byte* data = MapPages(size + kLargePage);
  if (data == nullptr)
    return nullptr;
  const size_t past = reinterpret_cast<uintptr_t>(data) % kLargePage;
  const size_t head = past == 0 ? 0 : kLargePage - past;
  // Whole pages only; what is left of the last one stays mapped, untouched.
  constexpr size_t kPage = 4096;
  const size_t kept = (size + kPage - 1) / kPage * kPage;
  if (head > 0)
    ::munmap(data, head);
  ::munmap(data + head + kept, kLargePage - head);
  ::madvise(data + head, kept, MADV_HUGEPAGE);
  return data + head;
}

}  // namespace

Result<Buffer> Buffer::Allocate(size_t size) {
  Buffer buffer;
  if (size == 0)
    return buffer;
  std::byte* data = size < kLargePage ? MapPages(size) : MapLargePages(size);
  if (data == nullptr) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("the system refused {} bytes of memory", size));
  }
  buffer.data_ = data;
  buffer.size_ = size;
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr)
    ::munmap(data_, size_);
}

}  // namespace tenon

#include "tensor/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

namespace tenon {

Result<Buffer> Buffer::Allocate(size_t size) {
  Buffer buffer;
  if (size == 0)
    return buffer;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("the system refused {} bytes of memory", size));
  }
  buffer.data_ = static_cast<std::byte*>(data);
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

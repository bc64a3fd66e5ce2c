#include "sample/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> allocations = 0;
}  // namespace

namespace tenon {
size_t AllocationCount() {
  return allocations.load();
}
}  // namespace tenon

void* operator new(size_t size) {
  allocations.fetch_add(1);
  if (void* memory = std::malloc(size > 0 ? size : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

#include "spine/allocation_count.h"

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

// All forms for a single object, so that new and delete always match (the array forms of the
// library call these).
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1);
  return std::malloc(size > 0 ? size : 1);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

// TensorView: a tensor of a running program: type, shape and where its elements are.
//
// Elements are contiguous, last dimension innermost; types below a byte have a byte an element.
// Owns nothing. Threading: as its bytes are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/element_type.h"

namespace tenon {

using Extents = std::vector<int64_t>;

inline int64_t ElementCount(const Extents& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    count *= extent;
  return count;
}

struct TensorView {
  ElementType type = ElementType::kUndefined;
  Extents shape;
  std::byte* data = nullptr;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t count() const { return ElementCount(shape); }
  int64_t bytes() const { return count() * ElementBytes(type); }
  template <class T>
  T* As() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace tenon

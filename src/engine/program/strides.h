// Walking several tensors in the order of one of them: broadcasting, transposition, slices.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/program/tensor_view.h"

namespace tenon {

// Elements from one index to the next, in each dimension.
Extents ContiguousStrides(const Extents& shape);

// The shape that both broadcast to (ONNX's multidirectional broadcasting).
Result<Extents> BroadcastShape(const Extents& a, const Extents& b);
// Strides of `shape` seen as `out`: 0 where it is repeated. REQUIRES: it broadcasts to `out`.
Extents BroadcastStrides(const Extents& shape, const Extents& out);

// Visits the rows of `shape` (its innermost dimension after dimensions that lie together have been
// merged). For each row the visitor gets the element offset of each operand; the operand's step
// within the row is inner_stride(i). Empty shapes have no rows.
class RowWalk {
 public:
  // strides[i] are operand i's, one for each dimension of `shape`.
  RowWalk(const Extents& shape, std::vector<Extents> strides);

  int64_t inner() const { return shape_.back(); }
  int64_t inner_stride(size_t operand) const { return strides_[operand].back(); }

  // visit(const int64_t* offsets)
  template <class Visit>
  void ForEachRow(Visit visit) const {
    std::vector<int64_t> offsets(strides_.size());
    std::vector<int64_t> index(shape_.size());
    for (int64_t row = 0; row < rows_; ++row) {
      visit(offsets.data());
      for (size_t d = shape_.size() - 1; d-- > 0;) {
        const bool carry = ++index[d] == shape_[d];
        for (size_t i = 0; i < offsets.size(); ++i)
          offsets[i] += carry ? strides_[i][d] * (1 - shape_[d]) : strides_[i][d];
        if (!carry)
          break;
        index[d] = 0;
      }
    }
  }

 private:
  Extents shape_;
  std::vector<Extents> strides_;
  int64_t rows_ = 1;
};

}  // namespace tenon

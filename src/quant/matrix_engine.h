// MatrixEngine: the two things that quantizers need fast, matrix products and loops over rows.
//
// The quantizers know no threads and no vector instructions; whoever runs them brings an engine of
// its own. Threading: calls from one thread; a call may use others.
#pragma once

#include <cstdint>
#include <functional>

#include "quant/matrix.h"

namespace tenon {

class MatrixEngine {
 public:
  virtual ~MatrixEngine() = default;

  // c += factor * a b, for a [m, k], b [k, n], c [m, n]. c overlaps neither a nor b.
  virtual void AddProduct(float factor, const MatrixView& a, const MatrixView& b,
                          const MutableMatrixView& c) = 0;

  // Runs body(begin, end) over disjoint ranges that cover 0..count-1, in any order.
  using RangeBody = std::function<void(int64_t begin, int64_t end)>;
  virtual void ForRanges(int64_t count, const RangeBody& body) = 0;
};

// One thread and plain loops: the reference, and enough for small matrices.
class SerialMatrixEngine final : public MatrixEngine {
 public:
  void AddProduct(float factor, const MatrixView& a, const MatrixView& b,
                  const MutableMatrixView& c) override;
  void ForRanges(int64_t count, const RangeBody& body) override;
};

}  // namespace tenon

#include "quant/matrix_engine.h"

namespace tenon {

void SerialMatrixEngine::AddProduct(float factor, const MatrixView& a, const MatrixView& b,
                                    const MutableMatrixView& c) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      const float left = factor * a.At(i, k);
      for (int64_t j = 0; j < b.columns; ++j)
        c.At(i, j) += left * b.At(k, j);
    }
  }
}

void SerialMatrixEngine::ForRanges(int64_t count, const RangeBody& body) {
  if (count > 0)
    body(0, count);
}

}  // namespace tenon

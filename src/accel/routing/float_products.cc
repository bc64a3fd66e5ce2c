#include "accel/routing/float_products.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tenon {
namespace {

// Rows of `a` that one call of a kernel takes: their outputs stay in the cache.
constexpr int64_t kRowsAtOnce = 64;

// Rows [first, first + 16) of `matrix` as a kF32 panel: 16 floats for each column.
void PackRows(const FloatMatrix& matrix, int64_t first, float* panel) {
  const int64_t count = std::min(kPanelRows, matrix.rows - first);
  for (int64_t k = 0; k < matrix.columns; ++k) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      panel[k * kPanelRows + r] =
          r < count ? matrix.values[static_cast<size_t>((first + r) * matrix.columns + k)] : 0.0F;
    }
  }
}

}  // namespace

FloatMatrix Transposed(const FloatMatrix& matrix) {
  FloatMatrix result(matrix.columns, matrix.rows);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t c = 0; c < matrix.columns; ++c)
      result.values[static_cast<size_t>(c * matrix.rows + r)] =
          matrix.values[static_cast<size_t>(r * matrix.columns + c)];
  }
  return result;
}

// A panel of `b` at a time on one thread, against all rows of `a`.
FloatMatrix FloatProducts::TimesTransposed(const FloatMatrix& a, const FloatMatrix& b) {
  TENON_CHECK(a.columns == b.columns);
  FloatMatrix out(a.rows, b.rows);
  const int64_t k = a.columns;
  const int64_t panel_bytes = PackedPanelBytes(PackedKind::kF32, k);
  panels_.resize(static_cast<size_t>(panel_bytes * pool_.threads()));
  const int64_t panels = (b.rows + kPanelRows - 1) / kPanelRows;
  const GemmFn gemm = kernels_.gemm[static_cast<int>(PackedKind::kF32)];
  pool_.ParallelFor(panels, 1, [&](int64_t begin, int64_t end, int worker) {
    auto* panel = reinterpret_cast<float*>(panels_.data() + panel_bytes * worker);
    float block[kRowsAtOnce * kPanelRows];
    for (int64_t p = begin; p < end; ++p) {
      PackRows(b, p * kPanelRows, panel);
      const int64_t columns = std::min(kPanelRows, b.rows - p * kPanelRows);
      for (int64_t r = 0; r < a.rows; r += kRowsAtOnce) {
        const int64_t rows = std::min(kRowsAtOnce, a.rows - r);
        gemm({reinterpret_cast<const std::byte*>(panel), k,
              reinterpret_cast<const std::byte*>(a.row(r).data()),
              k * static_cast<int64_t>(sizeof(float)), rows, nullptr, block, kPanelRows});
        for (int64_t i = 0; i < rows; ++i)
          std::memcpy(out.row(r + i).data() + p * kPanelRows, block + i * kPanelRows,
                      static_cast<size_t>(columns) * sizeof(float));
      }
    }
  });
  return out;
}

}  // namespace tenon

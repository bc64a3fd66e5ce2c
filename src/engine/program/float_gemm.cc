#include "engine/program/float_gemm.h"

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

// [m, k], contiguous.
struct LeftRows {
  const float* data;
  int64_t m;
  int64_t k;
};

// Columns `first` and the next 15, as far as there are any, of rows of n columns.
struct OutputColumns {
  float* data;
  int64_t first;
  int64_t n;
};

void RunPanel(const NodeCall& call, const LeftRows& left, const std::byte* panel,
              const OutputColumns& columns) {
  const auto [a, m, k] = left;
  const auto [out, first, n] = columns;
  GemmArgs args = {};
  args.panel = panel;
  args.k = k;
  args.activations = reinterpret_cast<const std::byte*>(a);
  args.activation_stride = k * static_cast<int64_t>(sizeof(float));
  args.tokens = m;
  const int64_t count = std::min(kPanelRows, n - first);
  const GemmFn gemm = call.kernels().gemm[static_cast<int>(PackedKind::kF32)];
  if (count == kPanelRows) {
    args.out = out + first;
    args.out_stride = n;
    gemm(args);
    return;
  }
  std::vector<float> part(static_cast<size_t>(m * kPanelRows));
  args.out = part.data();
  args.out_stride = kPanelRows;
  gemm(args);
  for (int64_t t = 0; t < m; ++t)
    std::copy_n(part.data() + t * kPanelRows, count, out + t * n + first);
}

}  // namespace

void PackedGemm(const NodeCall& call, const float* a, int64_t m, const PackedConstant& b,
                float* out) {
  const int64_t panels = (b.n + kPanelRows - 1) / kPanelRows;
  const int64_t bytes = PackedPanelBytes(PackedKind::kF32, b.k);
  call.pool().ParallelFor(panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p)
      RunPanel(call, {a, m, b.k}, b.panels.data() + p * bytes, {out, p * kPanelRows, b.n});
  });
}

void Gemm(const NodeCall& call, const float* a, int64_t m, const FloatMatrix& b, float* out) {
  const int64_t k = b.rows;
  const int64_t n = b.columns;
  const int64_t panels = (n + kPanelRows - 1) / kPanelRows;
  call.pool().ParallelFor(panels, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> panel(static_cast<size_t>(k * kPanelRows));
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanelRows;
      const int64_t count = std::min(kPanelRows, n - first);
      for (int64_t i = 0; i < k; ++i) {
        const float* from = b.data + i * b.row_step + first * b.column_step;
        for (int64_t j = 0; j < count; ++j)
          panel[static_cast<size_t>(i * kPanelRows + j)] = from[j * b.column_step];
      }
      RunPanel(call, {a, m, k}, reinterpret_cast<const std::byte*>(panel.data()), {out, first, n});
    }
  });
}

}  // namespace tenon

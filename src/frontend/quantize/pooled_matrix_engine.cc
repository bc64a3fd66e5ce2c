#include "frontend/quantize/pooled_matrix_engine.h"

#include <algorithm>

namespace tenon {
namespace {

// A panel of 256 x 16 floats takes half of a first-level cache; the kernel's rows the rest.
constexpr int64_t kDepth = 256;
// Rows of `a` that one packed panel is used for, at least.
constexpr int64_t kTaskRows = 384;
constexpr int64_t kTileRows = 48;
constexpr int64_t kScratchFloats = kDepth * kPanelRows + kTileRows * kPanelRows;

// Columns [column, column + 16) of b, rows [first, first + depth), as the kernel reads a panel.
void PackPanel(const MatrixView& b, int64_t column, int64_t first, int64_t depth, float* out) {
  const int64_t width = std::min(kPanelRows, b.columns - column);
  if (width < kPanelRows)
    std::fill_n(out, depth * kPanelRows, 0.0F);
  if (b.column_stride == 1) {
    for (int64_t k = 0; k < depth; ++k)
      std::copy_n(&b.At(first + k, column), width, out + k * kPanelRows);
    return;
  }
  // A transposed matrix: along the memory of each column.
  for (int64_t j = 0; j < width; ++j) {
    const float* source = &b.At(first, column + j);
    for (int64_t k = 0; k < depth; ++k)
      out[k * kPanelRows + j] = source[k * b.row_stride];
  }
}

// Rows of 16 products, of which `width` count, times the factor to c.
void AddTile(float factor, const float* tile, int64_t width, const MutableMatrixView& c) {
  for (int64_t i = 0; i < c.rows; ++i) {
    const float* from = tile + i * kPanelRows;
    float* to = &c.At(i, 0);
    if (c.column_stride == 1 && width == kPanelRows) {
      for (int64_t j = 0; j < kPanelRows; ++j)
        to[j] += factor * from[j];
      continue;
    }
    for (int64_t j = 0; j < width; ++j)
      to[j * c.column_stride] += factor * from[j];
  }
}

}  // namespace

struct PooledMatrixEngine::Task {
  float factor;
  const MatrixView& a;
  const MatrixView& b;
  const MutableMatrixView& c;
  int64_t column;
  int64_t row;
  int64_t rows;
};

PooledMatrixEngine::PooledMatrixEngine(const KernelSet& kernels, ThreadPool& pool)
    : gemm_(kernels.gemm[static_cast<size_t>(PackedKind::kF32)]),
      pool_(pool),
      scratch_(static_cast<size_t>(kScratchFloats * pool.threads())) {}

void PooledMatrixEngine::ForRanges(int64_t count, const RangeBody& body) {
  pool_.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

MatrixView PooledMatrixEngine::WithContiguousRows(const MatrixView& a) {
  if (a.column_stride == 1)
    return a;
  rows_.resize(static_cast<size_t>(a.rows * a.columns));
  // In squares, so that both sides stay in the cache.
  constexpr int64_t kSquare = 32;
  pool_.ParallelFor((a.rows + kSquare - 1) / kSquare, 1, [&](int64_t begin, int64_t end, int) {
    const int64_t last = std::min(a.rows, end * kSquare);
    for (int64_t column = 0; column < a.columns; column += kSquare) {
      const int64_t column_end = std::min(a.columns, column + kSquare);
      for (int64_t i = begin * kSquare; i < last; ++i) {
        for (int64_t k = column; k < column_end; ++k)
          rows_[static_cast<size_t>(i * a.columns + k)] = a.At(i, k);
      }
    }
  });
  return {rows_.data(), a.rows, a.columns, a.columns, 1};
}

void PooledMatrixEngine::RunTask(const Task& task, int worker) {
  float* panel = scratch_.data() + worker * kScratchFloats;
  float* tile = panel + kDepth * kPanelRows;
  const int64_t width = std::min(kPanelRows, task.b.columns - task.column);
  for (int64_t first = 0; first < task.a.columns; first += kDepth) {
    const int64_t depth = std::min(kDepth, task.a.columns - first);
    PackPanel(task.b, task.column, first, depth, panel);
    for (int64_t row = task.row; row < task.row + task.rows; row += kTileRows) {
      const int64_t rows = std::min(kTileRows, task.row + task.rows - row);
      const GemmArgs args{reinterpret_cast<const std::byte*>(panel),
                          depth,
                          reinterpret_cast<const std::byte*>(&task.a.At(row, first)),
                          task.a.row_stride * static_cast<int64_t>(sizeof(float)),
                          rows,
                          nullptr,
                          tile,
                          kPanelRows};
      gemm_(args);
      AddTile(task.factor, tile, width, task.c.Block(row, rows, task.column, width));
    }
  }
}

void PooledMatrixEngine::AddProduct(float factor, const MatrixView& a, const MatrixView& b,
                                    const MutableMatrixView& c) {
  if (a.rows == 0 || a.columns == 0 || b.columns == 0)
    return;
  const MatrixView rows = WithContiguousRows(a);
  const int64_t panels = (b.columns + kPanelRows - 1) / kPanelRows;
  const int64_t strips = (a.rows + kTaskRows - 1) / kTaskRows;
  pool_.ParallelFor(panels * strips, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / panels * kTaskRows;
      RunTask({factor, rows, b, c, i % panels * kPanelRows, row, std::min(kTaskRows, a.rows - row)},
              worker);
    }
  });
}

}  // namespace tenon

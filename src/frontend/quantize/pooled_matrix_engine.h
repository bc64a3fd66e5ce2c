// PooledMatrixEngine: matrix products on the thread pool by the float kernel of a kernel set.
//
// Holds references to both; they must outlive it. One call at a time.
#pragma once

#include <vector>

#include "hal/kernel_set.h"
#include "hal/thread_pool.h"
#include "quant/matrix_engine.h"

namespace tenon {

class PooledMatrixEngine final : public MatrixEngine {
 public:
  PooledMatrixEngine(const KernelSet& kernels, ThreadPool& pool);

  void AddProduct(float factor, const MatrixView& a, const MatrixView& b,
                  const MutableMatrixView& c) override;
  void ForRanges(int64_t count, const RangeBody& body) override;

 private:
  struct Task;
  MatrixView WithContiguousRows(const MatrixView& a);
  void RunTask(const Task& task, int worker);

  GemmFn gemm_;
  ThreadPool& pool_;
  std::vector<float> rows_;     // a, where its rows had to be made contiguous
  std::vector<float> scratch_;  // [threads] a packed panel and a tile of results
};

}  // namespace tenon

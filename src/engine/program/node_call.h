// NodeCall: one execution of one node, as its kernel sees it.
//
// A kernel reads its inputs, asks for its outputs once their types and shapes are known, and fills
// them. Everything about inputs is untrusted: shapes come from files. Threading: one thread; a
// kernel may share its work out over pool().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/program/tensor_view.h"
#include "graph/program/program.h"
#include "hal/kernel_set.h"
#include "hal/thread_pool.h"

namespace tenon {

class ProgramRunner;

// A constant matrix [k, n] in the panels that GEMM kernels read.
struct PackedConstant {
  std::vector<std::byte> panels;  // kF32
  int64_t k = 0;
  int64_t n = 0;
};

class NodeCall {
 public:
  NodeCall(ProgramRunner& runner, size_t node_index, const void* op_context)
      : runner_(runner), node_index_(node_index), context_(op_context) {}

  const ProgramNode& node() const;
  int64_t version() const { return node().version; }
  const void* context() const { return context_; }

  size_t input_count() const { return node().inputs.size(); }
  bool Has(size_t i) const { return node().Input(i).valid(); }
  // REQUIRES: Has(i).
  const TensorView& input(size_t i) const;
  bool IsConstant(size_t i) const;
  // Inputs first..last are there; else an error that says which is not.
  Status Need(size_t count) const;
  // The input as a short list of integers or floats (axes, sizes, scales).
  Result<std::vector<int64_t>> Integers(size_t i) const;
  Result<std::vector<double>> Numbers(size_t i) const;

  size_t output_count() const { return node().outputs.size(); }
  bool Wants(size_t i) const { return node().Output(i).valid(); }
  // Memory for output `i`. An output that is not wanted gets memory too, which ends with the call.
  // Operators that allow it may get the memory of an input that ends here (see OpTraits).
  Result<TensorView> Output(size_t i, ElementType type, Extents shape);
  // Output 0 has input 0's elements in another shape: no work when the memory can be shared.
  Status Share(Extents shape);

  // An axis counted from the end when negative. `rank` dimensions.
  Result<int64_t> Axis(int64_t axis, int64_t rank) const;

  ThreadPool& pool() const;
  const KernelSet& kernels() const;
  // The constant input 1 packed, once for all runs; null when packing is off or it is not constant
  // or not F32 [k, n]. `transposed`: it is [n, k].
  enum class Layout : uint8_t { kRows, kTransposed };
  Result<const PackedConstant*> Packed(Layout layout) const;

  // The attribute's program (a body of control flow): how many inputs it has, and one run of it.
  // The outputs are valid until its next run.
  Result<size_t> BodyInputs(std::string_view attribute) const;
  Result<std::vector<TensorView>> RunBody(std::string_view attribute,
                                          const std::vector<TensorView>& inputs);

  void CountFlops(double flops) const;
  Error Wrong(std::string message) const;
  Error NotSupported(std::string message) const;

 private:
  std::string Where() const;

  ProgramRunner& runner_;
  size_t node_index_;
  const void* context_;
};

using ProgramKernel = Status (*)(NodeCall& call);

}  // namespace tenon

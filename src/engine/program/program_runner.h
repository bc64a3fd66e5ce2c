// ProgramRunner: runs a Program on the CPU, node by node, with shapes as they come.
//
// Owns the program, the tensors' memory and packed constants. A tensor's memory is given out again
// after its last reader (liveness), an operator that may writes over an input that ends with it,
// and reshapes share memory; each of these can be switched off to see what it brings. Threading:
// one thread at a time; kernels use the pool.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/program/node_call.h"
#include "engine/program/op_table.h"
#include "engine/program/tensor_memory.h"
#include "graph/program/program.h"

namespace tenon {

enum class Sharing : uint8_t { kOff, kOn };

struct ProgramOptions {
  MemoryReuse reuse = MemoryReuse::kByLifetime;
  Sharing in_place = Sharing::kOn;
  Sharing views = Sharing::kOn;
  Sharing packing = Sharing::kOn;  // constants of products are packed once
  int64_t memory_limit = int64_t{64} << 30;
};

struct ProgramStats {
  int64_t launches = 0;  // kernels that did work: views that share memory are none
  // Multiplications and additions of products and attention, keys that a mask takes out of fused
  // attention left out; of other operators none.
  double flops = 0.0;
  int64_t peak_bytes = 0;    // of values between inputs and outputs, at one time
  int64_t output_bytes = 0;  // of the program's outputs
};

class ProgramRunner {
 public:
  // `table`, `pool` and `kernels` must outlive the runner. kUnsupported, listing all operators that
  // the table does not have.
  static Result<std::unique_ptr<ProgramRunner>> Create(Program program,
                                                       const ProgramOptions& options,
                                                       const OpTable& table, ThreadPool& pool,
                                                       const KernelSet& kernels);
  ProgramRunner(const ProgramRunner&) = delete;
  ProgramRunner& operator=(const ProgramRunner&) = delete;

  const Program& program() const { return program_; }

  // Runs on one tensor for each of the program's inputs, in order; their types and declared numbers
  // are checked. The outputs are valid until the next Run.
  Result<std::vector<TensorView>> Run(const std::vector<TensorView>& inputs);
  const ProgramStats& stats() const { return stats_; }

 private:
  friend class NodeCall;

  struct Slot {
    TensorView view;
    int32_t storage = -1;  // index into storages_; -1: a constant or an input
  };
  struct Storage {
    std::byte* data = nullptr;
    int32_t users = 0;
    bool of_output = false;  // in outputs_memory_
  };

  ProgramRunner(Program program, const ProgramOptions& options, ThreadPool& pool,
                const KernelSet& kernels);
  Status Bind(const OpTable& table);
  Status MakeBodies(const OpTable& table);
  // The runner of a node's program; null when it has none of that name.
  ProgramRunner* Body(size_t node, std::string_view attribute) const;
  void FindLastReaders();
  void PlaceConstants();
  Status TakeInputs(const std::vector<TensorView>& inputs);
  Status RunNode(size_t index);
  void ReleaseAfter(size_t index);
  void Unuse(Slot& slot);
  // For NodeCall.
  Result<TensorView> MakeOutput(size_t node, size_t i, ElementType type, Extents shape);
  int32_t StorageToReuse(size_t node, int64_t bytes, ElementType type, const Extents& shape) const;

  Program program_;
  ProgramOptions options_;
  ThreadPool& pool_;
  const KernelSet& kernels_;
  std::vector<const ProgramOp*> ops_;        // by node
  std::vector<std::vector<uint32_t>> ends_;  // by node: values whose last reader it is
  std::vector<int64_t> last_reader_;         // by value; INT64_MAX for outputs
  std::vector<Slot> slots_;                  // by value
  std::vector<Storage> storages_;
  std::vector<std::byte*> scratch_;  // outputs that are not wanted
  TensorMemory memory_;
  TensorMemory outputs_memory_;
  std::unordered_map<size_t, std::unique_ptr<PackedConstant>> packed_;  // by node
  struct NodeBody {
    size_t node = 0;
    std::string attribute;
    std::unique_ptr<ProgramRunner> runner;
  };
  std::vector<NodeBody> bodies_;
  ProgramStats stats_;
  bool launched_ = false;
};

}  // namespace tenon

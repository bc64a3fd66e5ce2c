// ProgramSession: a general ONNX graph ready to run, with its kernels, threads and plugins.
//
// Threading: one thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/program/op_table.h"
#include "engine/program/plugin_library.h"
#include "engine/program/program_runner.h"
#include "graph/program/passes/program_pass.h"
#include "hal/kernel_set.h"
#include "hal/thread_pool.h"
#include "model/onnx/onnx_file.h"

namespace tenon {

struct ProgramSessionOptions {
  int threads = 0;  // 0: as many as the machine gives
  int level = 3;    // 0 runs the graph as it is, 3 optimises it
  // Memory of values is given out again when they have ended; off shows what that brings.
  MemoryReuse reuse = MemoryReuse::kByLifetime;
  std::vector<std::string> disabled_passes;
  // Names of outputs [.., rows, n] of which only the last row is wanted, as of a decoder's logits.
  std::vector<std::string> last_rows;
  std::vector<std::filesystem::path> plugins;  // shared libraries (include/tenon/plugin.h)
  int64_t memory_limit = int64_t{64} << 30;
};

// Passes fold constants with these operators; what would take more than `memory_limit` bytes stays
// to be computed. Refers to its arguments.
ProgramPassContext MakePassContext(const OpTable& table, ThreadPool& pool, const KernelSet& kernels,
                                   int64_t memory_limit);

class ProgramSession {
 public:
  static Result<std::unique_ptr<ProgramSession>> Open(const std::filesystem::path& path,
                                                      const ProgramSessionOptions& options);
  // A model in memory.
  static Result<std::unique_ptr<ProgramSession>> Parse(std::span<const std::byte> bytes,
                                                       const ProgramSessionOptions& options);

  ProgramRunner& runner() { return *runner_; }
  const Program& program() const { return runner_->program(); }
  // Of the passes that ran, in order.
  const std::vector<ProgramPassStats>& passes() const { return passes_; }

 private:
  ProgramSession() = default;
  static Result<std::unique_ptr<ProgramSession>> Create(OnnxFile file,
                                                        const ProgramSessionOptions& options);

  Status Optimize(Program& program, const ProgramSessionOptions& options);

  std::vector<PluginLibrary> plugins_;
  OpTable table_;
  KernelSet kernels_ = {};
  std::unique_ptr<ThreadPool> pool_;
  std::vector<ProgramPassStats> passes_;
  std::unique_ptr<ProgramRunner> runner_;
};

}  // namespace tenon

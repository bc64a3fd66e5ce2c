#include "frontend/session/program_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "hal/kernel_registry.h"
#include "model/onnx/onnx_import.h"

namespace tenon {
namespace {

// The outputs as constants of `target`, which owns copies.
Result<std::vector<ProgramValueId>> ToConstants(const std::vector<TensorView>& outputs,
                                                Program& target) {
  std::vector<ProgramValueId> ids;
  for (const TensorView& view : outputs) {
    const std::span<const std::byte> bytes(view.data, static_cast<size_t>(view.bytes()));
    ids.push_back(target.AddConstant("folded", view.type, view.shape, bytes));
  }
  return ids;
}

// The program's output of that name becomes its last row, [.., 1, n].
Status KeepLastRow(Program& program, const std::string& name) {
  const auto named =
      std::find_if(program.outputs.begin(), program.outputs.end(),
                   [&](ProgramValueId id) { return program.value(id).name == name; });
  if (named == program.outputs.end())
    return InvalidArgument(fmt::format("the graph has no output called '{}'", name), "--last-row");
  const ProgramValueId whole = *named;
  const auto& shape = program.value(whole).shape;
  if (shape && shape->size() < 2)
    return InvalidArgument(
        fmt::format("the output '{}' has {} dimensions; rows need two", name, shape->size()),
        "--last-row");
  constexpr int64_t kGatherVersion = 13;
  const ProgramValueId last = program.AddIntegers("last row", {-1});
  *named = program.Append("", "Gather", {whole, last}, kGatherVersion);
  program.nodes.back().attributes.emplace_back("axis", int64_t{-2});
  program.nodes.back().name = name;
  program.value(whole).name = name + " of all rows";
  program.value(*named).name = name;
  program.value(*named).type = program.value(whole).type;
  return {};
}

}  // namespace

ProgramPassContext MakePassContext(const OpTable& table, ThreadPool& pool, const KernelSet& kernels,
                                   int64_t memory_limit) {
  ProgramPassContext context;
  context.evaluate = [&table, &pool, &kernels, memory_limit](
                         Program part, Program& target) -> Result<std::vector<ProgramValueId>> {
    ProgramOptions limited;
    limited.memory_limit = memory_limit;
    limited.packing = Sharing::kOff;
    TENON_ASSIGN_OR_RETURN(const auto runner,
                           ProgramRunner::Create(std::move(part), limited, table, pool, kernels));
    TENON_ASSIGN_OR_RETURN(const auto outputs, runner->Run({}));
    return ToConstants(outputs, target);
  };
  return context;
}

Status ProgramSession::Optimize(Program& program, const ProgramSessionOptions& options) {
  // A constant of a file has at most as many bytes as the file; what is computed from it may grow.
  ProgramPassContext context = MakePassContext(table_, *pool_, kernels_, int64_t{4} << 30);
  context.disabled = options.disabled_passes;
  TENON_ASSIGN_OR_RETURN(passes_, OptimizeProgram(program, context));
  return {};
}

Result<std::unique_ptr<ProgramSession>> ProgramSession::Create(
    OnnxFile file, const ProgramSessionOptions& options) {
  std::unique_ptr<ProgramSession> session(new ProgramSession());
  for (const std::filesystem::path& path : options.plugins) {
    TENON_ASSIGN_OR_RETURN(PluginLibrary plugin, PluginLibrary::Open(path));
    TENON_RETURN_IF_ERROR(plugin.AddTo(session->table_));
    session->plugins_.push_back(std::move(plugin));
  }
  TENON_ASSIGN_OR_RETURN(session->kernels_, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(session->pool_, ThreadPool::Create(options.threads));
  TENON_ASSIGN_OR_RETURN(Program program, ImportOnnx(std::move(file)));
  for (const std::string& name : options.last_rows)
    TENON_RETURN_IF_ERROR(KeepLastRow(program, name));
  ProgramOptions run;
  run.memory_limit = options.memory_limit;
  run.reuse = options.reuse;
  if (options.level == 0) {
    run.in_place = Sharing::kOff;
    run.views = Sharing::kOff;
    run.packing = Sharing::kOff;
  } else {
    TENON_RETURN_IF_ERROR(session->Optimize(program, options));
  }
  TENON_ASSIGN_OR_RETURN(session->runner_,
                         ProgramRunner::Create(std::move(program), run, session->table_,
                                               *session->pool_, session->kernels_));
  return session;
}

Result<std::unique_ptr<ProgramSession>> ProgramSession::Open(const std::filesystem::path& path,
                                                             const ProgramSessionOptions& options) {
  TENON_ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::Open(path));
  return Create(std::move(file), options);
}

Result<std::unique_ptr<ProgramSession>> ProgramSession::Parse(
    std::span<const std::byte> bytes, const ProgramSessionOptions& options) {
  TENON_ASSIGN_OR_RETURN(OnnxFile file, OnnxFile::Parse(bytes, "the model in memory"));
  return Create(std::move(file), options);
}

}  // namespace tenon

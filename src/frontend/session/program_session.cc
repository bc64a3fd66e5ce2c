#include "frontend/session/program_session.h"

#include "hal/kernel_registry.h"
#include "model/onnx/onnx_import.h"

namespace tenon {

Result<std::unique_ptr<ProgramSession>> ProgramSession::Create(
    OnnxFile file, const ProgramSessionOptions& options) {
  std::unique_ptr<ProgramSession> session(new ProgramSession());
  TENON_ASSIGN_OR_RETURN(session->kernels_, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(session->pool_, ThreadPool::Create(options.threads));
  TENON_ASSIGN_OR_RETURN(Program program, ImportOnnx(std::move(file)));
  ProgramOptions run;
  run.memory_limit = options.memory_limit;
  if (options.level == 0) {
    run.in_place = Sharing::kOff;
    run.views = Sharing::kOff;
    run.packing = Sharing::kOff;
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

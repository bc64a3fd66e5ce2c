// A C interface to ProgramSession for the Python tests (ctypes). Every function returns 0, or -1
// with the error's text and code in tenon_bridge_error.
#include <cstring>
#include <string>

#include "frontend/session/program_session.h"

namespace {

using tenon::ElementType;
using tenon::ProgramSession;
using tenon::TensorView;

struct Session {
  std::unique_ptr<ProgramSession> session;
  std::vector<TensorView> outputs;
};

std::string last_error;

int Fail(const tenon::Error& error) {
  last_error = std::string(tenon::ErrorCodeName(error.code)) + ": " + error.ToString();
  return -1;
}

}  // namespace

extern "C" {

// An array as both sides see it: elements as ONNX numbers their types, types below a byte unpacked.
struct TenonArray {
  int32_t type;
  int32_t rank;
  const int64_t* shape;
  void* data;
};

const char* tenon_bridge_error() {
  return last_error.c_str();
}

int tenon_bridge_open(const void* bytes, size_t size, const char* path, int level,
                      const char* plugin, void** out) {
  tenon::ProgramSessionOptions options;
  options.level = level;
  options.threads = 1;
  if (plugin != nullptr)
    options.plugins.emplace_back(plugin);
  auto opened = path != nullptr
                    ? ProgramSession::Open(path, options)
                    : ProgramSession::Parse({static_cast<const std::byte*>(bytes), size}, options);
  if (!opened.ok())
    return Fail(opened.error());
  *out = new Session{std::move(*opened), {}};
  return 0;
}

void tenon_bridge_close(void* handle) {
  delete static_cast<Session*>(handle);
}

int tenon_bridge_input_count(void* handle) {
  return static_cast<int>(static_cast<Session*>(handle)->session->program().inputs.size());
}

const char* tenon_bridge_input_name(void* handle, int i) {
  const tenon::Program& program = static_cast<Session*>(handle)->session->program();
  return program.value(program.inputs[static_cast<size_t>(i)]).name.c_str();
}

int tenon_bridge_run(void* handle, const TenonArray* inputs, int count, int* output_count) {
  auto* session = static_cast<Session*>(handle);
  std::vector<TensorView> views;
  for (int i = 0; i < count; ++i)
    views.push_back({static_cast<ElementType>(inputs[i].type),
                     {inputs[i].shape, inputs[i].shape + inputs[i].rank},
                     static_cast<std::byte*>(inputs[i].data)});
  auto outputs = session->session->runner().Run(views);
  if (!outputs.ok())
    return Fail(outputs.error());
  session->outputs = std::move(*outputs);
  *output_count = static_cast<int>(session->outputs.size());
  return 0;
}

void tenon_bridge_output(void* handle, int i, TenonArray* out) {
  const TensorView& view = static_cast<Session*>(handle)->outputs[static_cast<size_t>(i)];
  *out = {static_cast<int32_t>(view.type), static_cast<int32_t>(view.rank()), view.shape.data(),
          view.data};
}

void tenon_bridge_stats(void* handle, int64_t* launches, double* flops, int64_t* peak_bytes) {
  const tenon::ProgramStats& stats = static_cast<Session*>(handle)->session->runner().stats();
  *launches = stats.launches;
  *flops = stats.flops;
  *peak_bytes = stats.peak_bytes;
}

}  // extern "C"

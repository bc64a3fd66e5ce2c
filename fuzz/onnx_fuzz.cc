// Any bytes as an ONNX model: parsing and import end, with a program that verifies or with an
// error; a program whose operators are known runs, on inputs of ones, within a small memory.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/program/number_convert.h"
#include "frontend/session/program_session.h"

namespace {

// Extents that a declaration leaves open, and the largest it may ask for here.
constexpr int64_t kOpenExtent = 2;
constexpr int64_t kMostElements = 4096;

bool MakeInput(const tenon::ProgramValue& value, std::vector<std::byte>& bytes,
               tenon::TensorView& view) {
  view.type = value.type == tenon::ElementType::kUndefined ? tenon::ElementType::kF32 : value.type;
  int64_t count = 1;
  if (value.shape) {
    for (const tenon::ProgramDim& dim : *value.shape) {
      const int64_t extent = dim.value >= 0 ? dim.value : kOpenExtent;
      if (extent > kMostElements || count * extent > kMostElements)
        return false;
      count *= extent;
      view.shape.push_back(extent);
    }
  }
  if (tenon::ElementBytes(view.type) == 0)
    return false;
  bytes.resize(static_cast<size_t>(count * tenon::ElementBytes(view.type)) + 8);
  view.data = bytes.data();
  const double one = 1.0;
  for (int64_t i = 0; i < count; ++i)
    tenon::StoreDoubles(view.type, &one, 1, view.data + i * tenon::ElementBytes(view.type));
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int level : {0, 3}) {
    tenon::ProgramSessionOptions options;
    options.threads = 1;
    options.level = level;
    options.memory_limit = 16 << 20;
    const auto session =
        tenon::ProgramSession::Parse({reinterpret_cast<const std::byte*>(data), size}, options);
    if (!session.ok())
      return 0;
    const tenon::Program& program = (*session)->program();
    std::vector<std::vector<std::byte>> bytes(program.inputs.size());
    std::vector<tenon::TensorView> views(program.inputs.size());
    for (size_t i = 0; i < views.size(); ++i) {
      if (!MakeInput(program.value(program.inputs[i]), bytes[i], views[i]))
        return 0;
    }
    if (!(*session)->runner().Run(views).ok())
      return 0;
  }
  return 0;
}

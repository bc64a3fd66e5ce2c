#include "accel/module.h"

#include <fmt/format.h>

namespace tenon {

std::string_view ModuleStageName(ModuleStage stage) {
  switch (stage) {
    case ModuleStage::kRouting:
      return "routing";
    case ModuleStage::kSpeculation:
      return "speculation";
    case ModuleStage::kQuantization:
      return "quantization";
    case ModuleStage::kPhaseSplit:
      return "phase_split";
  }
  return "";
}

Status Module::Resize(int64_t bytes) {
  const ModuleInfo now = info();
  if (now.bytes <= bytes)
    return {};
  return MakeError(ErrorCode::kResourceExhausted,
                   fmt::format("the module holds {} bytes and can't do with {}", now.bytes, bytes),
                   now.name);
}

}  // namespace tenon

// Any text as a config.json: it is refused, or gives sizes within bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/hf/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document = tenon::JsonDocument::Parse({reinterpret_cast<const char*>(data), size},
                                                   "input", tenon::JsonDialect::kPython);
  if (!document.ok())
    return 0;
  const auto config = tenon::ReadHfConfig(document->root());
  if (!config.ok())
    return 0;
  const tenon::ModelConfig& model = config->model;
  TENON_CHECK(model.head_dim > 0 && model.rope.rotary_dim > 0 &&
              model.rope.rotary_dim <= model.head_dim && model.rope.rotary_dim % 2 == 0);
  TENON_CHECK(model.head_count % model.kv_head_count == 0);
  TENON_CHECK(model.layer_windows.empty() ||
              model.layer_windows.size() == static_cast<size_t>(model.layer_count));
  return 0;
}

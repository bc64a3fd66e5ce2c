// Any bytes as a safetensors file: parsing ends, with tensors that lie inside the file or with an
// error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/safetensors/safetensors_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto parsed = tenon::ParseSafetensors(bytes, "input");
  if (!parsed.ok()) {
    TENON_CHECK(!parsed.error().message.empty());
    return 0;
  }
  for (const tenon::SafetensorsTensor& tensor : parsed->tensors)
    TENON_CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
  return 0;
}

// Any bytes as a GGUF file: parsing ends, with a model or with an error, and the tensors of a model
// lie inside the file.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/gguf/gguf_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  auto parsed = tenon::ParseGguf(bytes, "input");
  if (!parsed.ok())
    return 0;
  for (const tenon::TensorInfo& tensor : parsed->tensors)
    TENON_CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
  const auto source = tenon::ModelFromGguf(std::span(&*parsed, 1));
  if (!source.ok())
    TENON_CHECK(!source.error().message.empty());
  return 0;
}

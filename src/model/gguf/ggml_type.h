// The tensor types that GGUF files number, and which of them this program reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace tenon {

struct GgmlType {
  uint32_t number;
  std::string_view name;
  std::optional<DType> dtype;  // none: GGML has or had the type, this program does not read it
};

// Null for a number that GGML never gave out.
const GgmlType* FindGgmlType(uint32_t number);

// The number of a dtype that files may hold; none for the others.
std::optional<uint32_t> GgmlTypeNumber(DType dtype);

}  // namespace tenon

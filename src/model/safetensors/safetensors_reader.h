// The container format safetensors: u64 length of the header, the header in JSON, tensor data.
//
// The header maps each tensor's name to dtype, shape and data_offsets (relative to the data), and
// "__metadata__" to strings. The format wants the data indexed without holes, overlaps or a rest; a
// file that breaks it is refused. Everything is untrusted: sizes are checked against the file
// before they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tenon {

enum class SafetensorsType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
  kC64,
};

struct SafetensorsTypeInfo {
  SafetensorsType type;
  std::string_view name;  // as the header spells it
  uint64_t bytes;         // of one value
};

const SafetensorsTypeInfo& GetSafetensorsTypeInfo(SafetensorsType type);
inline std::string_view SafetensorsTypeName(SafetensorsType type) {
  return GetSafetensorsTypeInfo(type).name;
}

struct SafetensorsTensor {
  std::string name;
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<int64_t> shape;  // outermost first; [] is a single value
  uint64_t offset = 0;         // of the first byte in the file
  uint64_t bytes = 0;
};

struct SafetensorsFile {
  std::vector<SafetensorsTensor> tensors;                     // in data order
  std::vector<std::pair<std::string, std::string>> metadata;  // of "__metadata__"
};

// The format's own bound on the header.
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

// Parses and checks all but the tensors' values. `name` is the file's name for messages.
Result<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes, const std::string& name);

}  // namespace tenon

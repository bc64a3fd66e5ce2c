// DType: the element types of tensors, and the table of what each one looks like in memory.
//
// Quantized types store blocks: `block_elements` consecutive values of a row in `block_bytes`
// bytes. Layouts are those of GGUF and are described field by field in quant/blocks.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kI32,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kActI8,   // activations quantized on the fly; layout in hal/kernel_set.h, never in a file
  kActI16,  // the same in 16 bits
};

inline constexpr int kDTypeCount = 19;

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as files and messages spell it, such as "Q4_K"
  int block_elements;
  int block_bytes;
};

// The row of `dtype`.
const DTypeInfo& GetDTypeInfo(DType dtype);
inline std::string_view DTypeName(DType dtype) {
  return GetDTypeInfo(dtype).name;
}
std::optional<DType> FindDType(std::string_view name);

// Bytes of `elements` consecutive values. REQUIRES: elements is a multiple of the block.
int64_t DTypeRowBytes(DType dtype, int64_t elements);
inline bool IsQuantized(DType dtype) {
  return GetDTypeInfo(dtype).block_elements > 1;
}

inline bool IsQuantizedActivation(DType dtype) {
  return dtype == DType::kActI8 || dtype == DType::kActI16;
}

// What rows of k values of activations are quantized to before weights of `weight` take them: kF32
// where they stay as they are.
DType ActivationTypeFor(DType weight, int64_t k);

}  // namespace tenon

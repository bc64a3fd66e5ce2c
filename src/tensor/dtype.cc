#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace tenon {
namespace {

constexpr std::array<DTypeInfo, kDTypeCount> kTable = {{
    {DType::kF32, "F32", 1, 4},
    {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},
    {DType::kI32, "I32", 1, 4},
    {DType::kQ4_0, "Q4_0", 32, 18},
    {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},
    {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ8_0, "Q8_0", 32, 34},
    {DType::kQ2_K, "Q2_K", 256, 84},
    {DType::kQ3_K, "Q3_K", 256, 110},
    {DType::kQ4_K, "Q4_K", 256, 144},
    {DType::kQ5_K, "Q5_K", 256, 176},
    {DType::kQ6_K, "Q6_K", 256, 210},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136},
    {DType::kMXFP4, "MXFP4", 32, 17},
    // WholeBlock and GroupsBlock of hal/kernel_set.h.
    {DType::kActI8, "ACT_I8", 32, 92},
    // WideBlock.
    {DType::kActI16, "ACT_I16", 32, 68},
}};

constexpr bool TableIsInOrder() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].dtype != static_cast<DType>(i))
      return false;
  }
  return true;
}
static_assert(TableIsInOrder(), "GetDTypeInfo indexes the table by the enum's value");

}  // namespace

const DTypeInfo& GetDTypeInfo(DType dtype) {
  return kTable[static_cast<size_t>(dtype)];
}

std::optional<DType> FindDType(std::string_view name) {
  for (const DTypeInfo& info : kTable) {
    if (info.name == name)
      return info.dtype;
  }
  return std::nullopt;
}

int64_t DTypeRowBytes(DType dtype, int64_t elements) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  TENON_CHECK(elements >= 0 && elements % info.block_elements == 0);
  return elements / info.block_elements * info.block_bytes;
}

DType ActivationTypeFor(DType weight, int64_t k) {
  if (IsQuantized(weight))
    return DType::kActI8;
  const bool is_half = weight == DType::kF16 || weight == DType::kBF16;
  const bool in_blocks = k % GetDTypeInfo(DType::kActI16).block_elements == 0;
  return is_half && in_blocks ? DType::kActI16 : DType::kF32;
}

}  // namespace tenon

#include "model/gguf/ggml_type.h"

namespace tenon {
namespace {

constexpr GgmlType kTypes[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},
    {4, "Q4_2", {}},
    {5, "Q4_3", {}},
    {6, "Q5_0", DType::kQ5_0},
    {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", DType::kQ2_K},
    {11, "Q3_K", DType::kQ3_K},
    {12, "Q4_K", DType::kQ4_K},
    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", DType::kIQ4_NL},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", DType::kIQ4_XS},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", DType::kI32},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", DType::kBF16},
    {31, "Q4_0_4_4", {}},
    {32, "Q4_0_4_8", {}},
    {33, "Q4_0_8_8", {}},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {36, "IQ4_NL_4_4", {}},
    {37, "IQ4_NL_4_8", {}},
    {38, "IQ4_NL_8_8", {}},
    {39, "MXFP4", DType::kMXFP4},
    {40, "NVFP4", {}},
    {41, "Q1_0", {}},
};

}  // namespace

const GgmlType* FindGgmlType(uint32_t number) {
  for (const GgmlType& type : kTypes) {
    if (type.number == number)
      return &type;
  }
  return nullptr;
}

std::optional<uint32_t> GgmlTypeNumber(DType dtype) {
  for (const GgmlType& type : kTypes) {
    if (type.dtype == dtype)
      return type.number;
  }
  return std::nullopt;
}

}  // namespace tenon

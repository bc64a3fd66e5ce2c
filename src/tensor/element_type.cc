#include "tensor/element_type.h"

#include <array>
#include <cstddef>

namespace tenon {
namespace {

struct Row {
  std::string_view name;
  int bits;
  NumberClass number_class;
};

constexpr std::array<Row, kElementTypeCount> kTable = {{
    {"undefined", 0, NumberClass::kNone},       {"float32", 32, NumberClass::kFloat},
    {"uint8", 8, NumberClass::kUnsigned},       {"int8", 8, NumberClass::kSigned},
    {"uint16", 16, NumberClass::kUnsigned},     {"int16", 16, NumberClass::kSigned},
    {"int32", 32, NumberClass::kSigned},        {"int64", 64, NumberClass::kSigned},
    {"string", 0, NumberClass::kNone},          {"bool", 8, NumberClass::kBool},
    {"float16", 16, NumberClass::kFloat},       {"float64", 64, NumberClass::kFloat},
    {"uint32", 32, NumberClass::kUnsigned},     {"uint64", 64, NumberClass::kUnsigned},
    {"complex64", 0, NumberClass::kNone},       {"complex128", 0, NumberClass::kNone},
    {"bfloat16", 16, NumberClass::kFloat},      {"float8e4m3fn", 8, NumberClass::kFloat},
    {"float8e4m3fnuz", 8, NumberClass::kFloat}, {"float8e5m2", 8, NumberClass::kFloat},
    {"float8e5m2fnuz", 8, NumberClass::kFloat}, {"uint4", 4, NumberClass::kUnsigned},
    {"int4", 4, NumberClass::kSigned},          {"float4e2m1", 4, NumberClass::kFloat},
    {"float8e8m0", 8, NumberClass::kFloat},     {"uint2", 2, NumberClass::kUnsigned},
    {"int2", 2, NumberClass::kSigned},
}};

}  // namespace

std::string_view ElementTypeName(ElementType type) {
  return kTable[static_cast<size_t>(type)].name;
}

int ElementBits(ElementType type) {
  return kTable[static_cast<size_t>(type)].bits;
}

NumberClass ClassOf(ElementType type) {
  return kTable[static_cast<size_t>(type)].number_class;
}

}  // namespace tenon

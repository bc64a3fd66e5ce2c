// ElementType: the element types of general tensors, numbered as ONNX's TensorProto.DataType does.
//
// Unlike DType, which knows the blocks of quantized weights, these are the types that the operators
// of imported graphs compute with. Four- and two-bit types lie packed in files, low bits first, and
// as one byte an element in a running program.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

enum class ElementType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBF16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26,
};
inline constexpr int kElementTypeCount = 27;

// As messages spell it, such as "float32".
std::string_view ElementTypeName(ElementType type);

// Bits of an element in a file; 0 for types that programs don't have (strings, complex numbers).
int ElementBits(ElementType type);
// Bytes of an element in a running program; 0 as above.
inline int64_t ElementBytes(ElementType type) {
  return (ElementBits(type) + 7) / 8;
}

enum class NumberClass : uint8_t { kNone, kFloat, kSigned, kUnsigned, kBool };
NumberClass ClassOf(ElementType type);
inline bool IsFloat(ElementType type) {
  return ClassOf(type) == NumberClass::kFloat;
}
inline bool IsInteger(ElementType type) {
  const NumberClass c = ClassOf(type);
  return c == NumberClass::kSigned || c == NumberClass::kUnsigned;
}

}  // namespace tenon

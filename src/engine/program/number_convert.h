// Elements of any type to and from the two wide types that operators compute in.
//
// Floats go through double, integers and bool through int64_t (uint64 as the same bits). Storing a
// number to an integer type keeps its low bits; to a float type it rounds to nearest even; a float
// that an integer type can't hold has an unspecified value, as in C. Eight-bit floats saturate
// (ONNX Cast with saturate=1). Threading: free functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/element_type.h"

namespace tenon {

void LoadDoubles(ElementType type, const std::byte* from, int64_t count, double* out);
void StoreDoubles(ElementType type, const double* from, int64_t count, std::byte* out);
// REQUIRES: no float type.
void LoadIntegers(ElementType type, const std::byte* from, int64_t count, int64_t* out);
void StoreIntegers(ElementType type, const int64_t* from, int64_t count, std::byte* out);

enum class Overflow : uint8_t { kSaturate, kInfinity };
// One element of an eight- or four-bit float type.
double LoadSmallFloat(ElementType type, uint8_t bits);
uint8_t StoreSmallFloat(ElementType type, double value, Overflow overflow);

}  // namespace tenon

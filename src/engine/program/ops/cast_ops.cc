// Cast, CastLike, BitCast.
#include <cstring>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"

namespace tenon {
namespace {

bool IsSmallFloat(ElementType type) {
  return IsFloat(type) && ElementBits(type) <= 8 && type != ElementType::kF8E8M0;
}

Status Convert(NodeCall& call, ElementType to) {
  const TensorView x = call.input(0);
  if (ElementBytes(to) == 0)
    return call.NotSupported("elements of type " + std::string(ElementTypeName(to)));
  if (to == x.type)
    return call.Share(x.shape);
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, to, x.shape));
  const bool integers = !IsFloat(x.type) && !IsFloat(to);
  const bool infinity = call.node().Integer("saturate", 1) == 0 && IsSmallFloat(to);
  constexpr int64_t kChunk = 256;
  for (int64_t first = 0; first < x.count(); first += kChunk) {
    const int64_t n = std::min(kChunk, x.count() - first);
    const std::byte* from = x.data + first * ElementBytes(x.type);
    std::byte* out = y.data + first * ElementBytes(to);
    if (integers) {
      int64_t values[kChunk];
      LoadIntegers(x.type, from, n, values);
      StoreIntegers(to, values, n, out);
      continue;
    }
    double values[kChunk];
    LoadDoubles(x.type, from, n, values);
    if (!infinity) {
      StoreDoubles(to, values, n, out);
      continue;
    }
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<std::byte>(StoreSmallFloat(to, values[i], Overflow::kInfinity));
  }
  return {};
}

Result<ElementType> TargetType(const NodeCall& call) {
  const int64_t to = call.node().Integer("to", 0);
  if (to < 1 || to >= kElementTypeCount)
    return call.Wrong("the attribute 'to' is no element type");
  return static_cast<ElementType>(to);
}

Status Cast(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_ASSIGN_OR_RETURN(const ElementType to, TargetType(call));
  return Convert(call, to);
}

Status CastLike(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  return Convert(call, call.input(1).type);
}

Status BitCast(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_ASSIGN_OR_RETURN(const ElementType to, TargetType(call));
  const TensorView x = call.input(0);
  if (ElementBits(to) != ElementBits(x.type))
    return call.NotSupported("a change of the elements' size");
  TENON_ASSIGN_OR_RETURN(const TensorView y, call.Output(0, to, x.shape));
  if (x.bytes() > 0)
    std::memmove(y.data, x.data, static_cast<size_t>(x.bytes()));
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "Cast", 6, kEveryVersion, Cast, kPlainOp},
    {"", "CastLike", 15, kEveryVersion, CastLike, kPlainOp},
    {"", "BitCast", 1, kEveryVersion, BitCast, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> CastOps() {
  return kOps;
}

}  // namespace tenon

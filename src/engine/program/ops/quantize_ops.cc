// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

// Which scale an element has: of the tensor, of its index along an axis, or of its block there.
struct ScaleMap {
  int64_t axis_extent = 1;
  int64_t inner = 1;
  int64_t block = 0;  // 0: one scale for each index
  int64_t groups = 1;
  bool whole = true;

  int64_t At(int64_t i) const {
    if (whole)
      return 0;
    const int64_t index = i / inner % axis_extent;
    if (block == 0)
      return index;
    return (i / inner / axis_extent * groups + index / block) * inner + i % inner;
  }
};

Result<ScaleMap> MapScales(const NodeCall& call) {
  const TensorView& x = call.input(0);
  const TensorView& scale = call.input(1);
  ScaleMap map;
  if (scale.count() == 1 && scale.rank() <= 1)
    return map;
  map.whole = false;
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", 1), x.rank()));
  const auto d = static_cast<size_t>(axis);
  map.axis_extent = x.shape[d];
  for (size_t i = d + 1; i < x.shape.size(); ++i)
    map.inner *= x.shape[i];
  map.block = call.node().Integer("block_size", 0);
  if (map.block == 0) {
    if (scale.count() != map.axis_extent)
      return call.Wrong(
          fmt::format("{} scales for an extent of {}", scale.count(), map.axis_extent));
    return map;
  }
  Extents expected = x.shape;
  if (map.block < 0)
    return call.Wrong("a negative block_size");
  map.groups = (map.axis_extent + map.block - 1) / map.block;
  expected[d] = map.groups;
  if (scale.shape != expected)
    return call.Wrong(
        fmt::format("scales {} for {} in blocks of {}", scale.shape, x.shape, map.block));
  return map;
}

std::vector<double> Doubles(const TensorView& x) {
  std::vector<double> out(static_cast<size_t>(x.count()));
  LoadDoubles(x.type, x.data, x.count(), out.data());
  return out;
}

struct IntegerRange {
  double low;
  double high;
};

IntegerRange RangeOf(ElementType type) {
  const int bits = ElementBits(type);
  if (ClassOf(type) == NumberClass::kUnsigned)
    return {0.0, std::ldexp(1.0, bits) - 1.0};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1.0};
}

Status CheckZeroPoint(const NodeCall& call) {
  if (call.Has(2) && call.input(2).count() != call.input(1).count())
    return call.Wrong("zero points of another shape than the scales");
  return {};
}

Status Quantize(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_RETURN_IF_ERROR(CheckZeroPoint(call));
  TENON_ASSIGN_OR_RETURN(const ScaleMap map, MapScales(call));
  const int64_t named = call.node().Integer("output_dtype", 0);
  ElementType type =
      named > 0 && named < kElementTypeCount ? static_cast<ElementType>(named) : ElementType::kU8;
  if (call.Has(2))
    type = call.input(2).type;
  if (ElementBytes(type) == 0)
    return call.NotSupported("an element type");
  std::vector<double> values = Doubles(call.input(0));
  const std::vector<double> scales = Doubles(call.input(1));
  const std::vector<double> zeros = call.Has(2) ? Doubles(call.input(2)) : std::vector<double>();
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, call.input(0).shape));
  const IntegerRange range = RangeOf(type);
  // ONNX divides in the input's precision: float.
  for (size_t i = 0; i < values.size(); ++i) {
    const auto group = static_cast<size_t>(map.At(static_cast<int64_t>(i)));
    const double zero = zeros.empty() ? 0.0 : zeros[group];
    const auto divided = double{static_cast<float>(values[i]) / static_cast<float>(scales[group])};
    values[i] = IsFloat(type) ? divided + zero
                              : std::clamp(std::nearbyint(divided) + zero, range.low, range.high);
  }
  StoreDoubles(type, values.data(), out.count(), out.data);
  return {};
}

Status Dequantize(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_RETURN_IF_ERROR(CheckZeroPoint(call));
  TENON_ASSIGN_OR_RETURN(const ScaleMap map, MapScales(call));
  std::vector<double> values = Doubles(call.input(0));
  const std::vector<double> scales = Doubles(call.input(1));
  const std::vector<double> zeros = call.Has(2) ? Doubles(call.input(2)) : std::vector<double>();
  const int64_t named = call.node().Integer("output_dtype", 0);
  const ElementType type =
      named > 0 && named < kElementTypeCount ? static_cast<ElementType>(named) : call.input(1).type;
  if (!IsFloat(type))
    return call.NotSupported("an element type");
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, call.input(0).shape));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto group = static_cast<size_t>(map.At(static_cast<int64_t>(i)));
    values[i] = (values[i] - (zeros.empty() ? 0.0 : zeros[group])) * scales[group];
  }
  StoreDoubles(type, values.data(), out.count(), out.data);
  return {};
}

// One scale and zero point for the whole tensor, so that its range and 0 are inside uint8.
Status DynamicQuantize(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  if (call.input(0).type != ElementType::kF32)
    return call.NotSupported("elements that are not float32");
  const TensorView x = call.input(0);
  float low = 0.0F;
  float high = 0.0F;
  for (int64_t i = 0; i < x.count(); ++i) {
    low = std::min(low, x.As<float>()[i]);
    high = std::max(high, x.As<float>()[i]);
  }
  const float scale = (high - low) / 255.0F;
  const float zero =
      scale == 0.0F ? 0.0F : std::clamp(std::nearbyint(0.0F - low / scale), 0.0F, 255.0F);
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kU8, x.shape));
  for (int64_t i = 0; i < x.count(); ++i) {
    const float value = scale == 0.0F ? zero : std::nearbyint(x.As<float>()[i] / scale) + zero;
    out.As<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F));
  }
  TENON_ASSIGN_OR_RETURN(const TensorView scales, call.Output(1, ElementType::kF32, {}));
  TENON_ASSIGN_OR_RETURN(const TensorView zeros, call.Output(2, ElementType::kU8, {}));
  *scales.As<float>() = scale;
  *zeros.As<uint8_t>() = static_cast<uint8_t>(zero);
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "QuantizeLinear", 10, kEveryVersion, Quantize, kPlainOp},
    {"", "DequantizeLinear", 10, kEveryVersion, Dequantize, kPlainOp},
    {"com.microsoft", "QuantizeLinear", 1, kEveryVersion, Quantize, kPlainOp},
    {"com.microsoft", "DequantizeLinear", 1, kEveryVersion, Dequantize, kPlainOp},
    {"", "DynamicQuantizeLinear", 11, kEveryVersion, DynamicQuantize, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> QuantizeOps() {
  return kOps;
}

}  // namespace tenon

#include "graph/ops/shape_rules.h"

#include <cmath>

#include "graph/ops/registry.h"
#include "graph/text.h"

namespace tenon {
namespace {

bool IsMatrix(const Value& value) {
  return value.shape.size() == 2 && value.shape[0].extent > 0 && IsPositiveNumber(value.shape[1]);
}

bool MayBeWeight(DType dtype) {
  return dtype != DType::kI32 && !IsQuantizedActivation(dtype);
}

bool IsPositive(float x) {
  return std::isfinite(x) && x > 0.0F;
}

}  // namespace

bool IsPositiveNumber(const Dim& dim) {
  return dim.symbol == Symbol::kNone && dim.extent > 0;
}

std::string ShapeRules::Place() const {
  return fmt::format("{} \"{}\"", SchemaOf(op_.attrs).name, op_.name);
}

Error ShapeRules::InputError(size_t i, std::string_view expected) const {
  return InvalidArgument(fmt::format("{}: input {} ({}) is {}, expected {}", Place(), i,
                                     input(i).name, TypeText(input(i)), expected));
}

Error ShapeRules::AttrTextError(std::string_view field, std::string_view found,
                                std::string_view expected) const {
  return InvalidArgument(fmt::format("{}: {} is {}, expected {}", Place(), field, found, expected));
}

Status ShapeRules::Arity(size_t least, size_t most) const {
  const size_t count = op_.inputs.size();
  if (count >= least && count <= most)
    return {};
  const std::string expected =
      least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  return AttrTextError("number of inputs", fmt::format("{}", count), expected);
}

Status ShapeRules::Activation(size_t i) const {
  if (IsMatrix(input(i)) && input(i).dtype == DType::kF32)
    return {};
  return InputError(i, "f32[rows,columns]");
}

Status ShapeRules::LinearInput(size_t i) const {
  if (!IsQuantizedActivation(input(i).dtype))
    return Activation(i);
  if (input(i).shape.size() != 2 || !IsPositiveNumber(input(i).shape[1]))
    return InputError(i, "quantized activations [rows,columns]");
  return {};
}

Status ShapeRules::TakesInput(size_t i) const {
  const DType given = input(0).dtype;
  if (given == DType::kF32 || ActivationTypeFor(input(i).dtype, columns(0)) == given)
    return {};
  return InputError(i, given == DType::kActI8 ? "a block-quantized dtype, since input 0 is act_i8"
                                              : "f16 or bf16, since input 0 is act_i16");
}

Status ShapeRules::WeightMatrix(size_t i) const {
  const Value& value = input(i);
  if (!IsMatrix(value) || !IsPositiveNumber(value.shape[0]))
    return InputError(i, "a matrix [rows,columns]");
  if (!MayBeWeight(value.dtype))
    return InputError(i, "a float or block-quantized dtype");
  if (columns(i) % GetDTypeInfo(value.dtype).block_elements != 0)
    return InputError(
        i, fmt::format("columns in whole blocks of {}", GetDTypeInfo(value.dtype).block_elements));
  return {};
}

Status ShapeRules::ExactType(size_t i, const ValueType& expected) const {
  if (input(i).dtype == expected.dtype && input(i).shape == expected.shape)
    return {};
  return InputError(i, TypeText(expected));
}

Result<std::vector<ValueType>> ElementwiseShape(const Graph& graph, const Op& op, size_t arity) {
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(arity, arity));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const ValueType type{DType::kF32, rules.input(0).shape};
  for (size_t i = 1; i < arity; ++i)
    TENON_RETURN_IF_ERROR(rules.ExactType(i, type));
  return std::vector<ValueType>{type};
}

Status CheckRope(const ShapeRules& rules, const RopeParams& rope, int64_t head_dim) {
  // The value of RopeParams::scaling from which a rule needs the original context: llama3, yarn.
  constexpr uint8_t kNeedsContext = 2;
  constexpr uint8_t kLastScaling = 3;
  if (rope.rotary_dim <= 0 || rope.rotary_dim > head_dim || rope.rotary_dim % 2 != 0)
    return rules.AttrError("rotary_dim", rope.rotary_dim,
                           fmt::format("an even number from 2 to head_dim {}", head_dim));
  if (!IsPositive(rope.base))
    return rules.AttrError("base", rope.base, "a number above 0");
  if (rope.scaling > kLastScaling)
    return rules.AttrError("scaling", rope.scaling, "0 to 3");
  if (!IsPositive(rope.factor))
    return rules.AttrError("factor", rope.factor, "a number above 0");
  if (rope.scaling >= kNeedsContext && rope.original_context <= 0)
    return rules.AttrError("original_context", rope.original_context,
                           "a number above 0 with this scaling");
  return {};
}

Status CheckPositions(const ShapeRules& rules, size_t i, const RopeParams& rope) {
  TENON_RETURN_IF_ERROR(rules.ExactType(i, {DType::kI32, {rules.rows(0)}}));
  if (i + 1 < rules.input_count())
    return rules.ExactType(i + 1, {DType::kF32, {Dim{Symbol::kNone, rope.rotary_dim / 2}}});
  return {};
}

}  // namespace tenon

// What shape functions check, in one wording: 'rms_norm "name": input 1 (blk.0.attn_norm.weight) is
// f32[575], expected f32[576]'.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tenon {

// The inputs of one op under check. Refers to the graph and the op; copies neither.
class ShapeRules {
 public:
  ShapeRules(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  Status Arity(size_t least, size_t most) const;
  const Value& input(size_t i) const { return graph_.value(op_.inputs[i]); }
  size_t input_count() const { return op_.inputs.size(); }

  // REQUIRES of the rest: Arity passed, i is an input.
  // [rows, columns] of F32: rows may be symbolic, columns are a positive number.
  Status Activation(size_t i) const;
  // The same, or quantized activations: what products of weights take.
  Status LinearInput(size_t i) const;
  // Input 0 is F32 or what weights of input i's dtype take. REQUIRES: LinearInput(0) passed.
  Status TakesInput(size_t i) const;
  // A matrix [rows, columns] of positive numbers, of a dtype that weights may have.
  Status WeightMatrix(size_t i) const;
  Status ExactType(size_t i, const ValueType& expected) const;

  // 'op "name": input i (its name) is <type>, expected <expected>'.
  Error InputError(size_t i, std::string_view expected) const;
  // 'op "name": <field> is <found>, expected <expected>'.
  template <class T>
  Error AttrError(std::string_view field, const T& found, std::string_view expected) const;

  Dim rows(size_t i) const { return input(i).shape[0]; }
  int64_t columns(size_t i) const { return input(i).shape[1].extent; }

 private:
  std::string Place() const;
  Error AttrTextError(std::string_view field, std::string_view found,
                      std::string_view expected) const;

  const Graph& graph_;
  const Op& op_;
};

// Whether a dim is a number greater than 0.
bool IsPositiveNumber(const Dim& dim);

// One F32 output of the same type as input 0, all `arity` inputs being equal F32 activations.
Result<std::vector<ValueType>> ElementwiseShape(const Graph& graph, const Op& op, size_t arity);

// base, rotary_dim, scaling and the factors of `rope` against a head of head_dim values.
Status CheckRope(const ShapeRules& rules, const RopeParams& rope, int64_t head_dim);

// positions I32 [rows of input 0] at input i, and F32 [rotary_dim / 2] at i + 1 if there is one.
Status CheckPositions(const ShapeRules& rules, size_t i, const RopeParams& rope);

template <class T>
Error ShapeRules::AttrError(std::string_view field, const T& found,
                            std::string_view expected) const {
  return AttrTextError(field, fmt::format("{}", found), expected);
}

}  // namespace tenon

// The intermediate representation: a list of operations over typed values, in execution order.
//
// Holds names, types and attributes; never a weight's bytes and never a thread. A Graph is built by
// an architecture (model/arch/) or an importer, changed by passes (graph/passes/) and read by the
// planner. Value type; move it or copy it. Threading: const access from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strong_id.h"
#include "graph/ops/attrs.h"
#include "tensor/dtype.h"

namespace tenon {

using ValueId = StrongId<struct ValueTag>;
using OpId = StrongId<struct OpTag>;

// A size that is known only when a step runs.
enum class Symbol : uint8_t {
  kNone,
  kTokens,   // N: tokens in the step
  kOutputs,  // R: rows whose logits are wanted, R <= N
};

// extent, times the symbol's value when there is one.
struct Dim {
  Symbol symbol = Symbol::kNone;
  int64_t extent = 1;
  bool operator==(const Dim&) const = default;
};

// What a shape function gives for each output.
struct ValueType {
  DType dtype = DType::kF32;
  std::vector<Dim> shape;
  bool operator==(const ValueType&) const = default;
};

enum class ValueKind : uint8_t { kInput, kWeight, kTemporary };

// Where a value lives and an op runs. One CPU today; the planner will split by it.
struct Place {
  uint16_t device = 0;
  bool operator==(const Place&) const = default;
};

// A weight, or rows [row_begin, row_end) of one. Resolved to bytes by the engine at load.
struct WeightRef {
  std::string tensor;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  bool operator==(const WeightRef&) const = default;
};

struct Value {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Dim> shape;  // outermost first; a temporary is [N or R, columns]
  ValueKind kind = ValueKind::kTemporary;
  std::optional<WeightRef> weight;  // for kWeight
  Place place;
  OpId producer;  // invalid for inputs and weights
};

struct Op {
  std::string name;             // "layer 3 attention"
  OpAttrs attrs;                // its alternative is the kind of the op
  std::vector<ValueId> inputs;  // as the attribute struct's comment orders them
  std::vector<ValueId> outputs;
  Place place;
};

class Graph {
 public:
  ValueId AddInput(std::string name, DType dtype, std::vector<Dim> shape);
  // The whole tensor. Asked for twice with the same type, the same value is returned (tied
  // weights).
  ValueId AddWeight(std::string tensor, DType dtype, std::vector<Dim> shape);
  // Rows [ref.row_begin, ref.row_end) of a tensor; `shape` is that of the rows.
  ValueId AddWeightRows(WeightRef ref, DType dtype, std::vector<Dim> shape);

  // Appends an op; its outputs are new temporaries whose types come from the op's shape function.
  // Fails when the op's inputs do not fit it, saying which and why.
  Result<std::vector<ValueId>> AddOp(std::string name, OpAttrs attrs, std::vector<ValueId> inputs);

  void MarkOutput(ValueId value) { outputs_.push_back(value); }

  const std::vector<Op>& ops() const { return ops_; }
  std::vector<Op>& mutable_ops() { return ops_; }
  const std::vector<Value>& values() const { return values_; }
  const Value& value(ValueId id) const { return values_[id.index()]; }
  // REQUIRES: the value is a weight.
  const WeightRef& WeightOf(ValueId id) const;
  Value& mutable_value(ValueId id) { return values_[id.index()]; }
  const Op& op(OpId id) const { return ops_[id.index()]; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  std::vector<ValueId>& mutable_outputs() { return outputs_; }

  ValueId AddValue(Value value);

  // After ops were removed or moved: drops nothing, sets every value's producer anew.
  void RefreshProducers();

 private:
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<ValueId> outputs_;
};

}  // namespace tenon

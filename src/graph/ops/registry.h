// The built-in ops: one OpSchema each, in one list, found by the attributes' alternative or by
// name.
//
// Adding an op: its attributes (attrs.h), its file in this folder, its line in registry.cc.
// Threading: constant data.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/cost.h"
#include "graph/graph.h"
#include "graph/ops/attr_fields.h"

namespace tenon {

enum class OpEffect : uint8_t {
  kPure,      // equal inputs give equal outputs, and nothing else happens
  kWritesKv,  // never removed or merged
  kUnknown,   // a plug-in's: the same
};

struct OpSchema {
  std::string_view name;  // "rms_norm"
  OpEffect effect = OpEffect::kPure;
  // The attributes with every field at its default.
  OpAttrs (*make)() = nullptr;
  // REQUIRES of this and the functions below: the attributes are this op's alternative.
  std::vector<AttrField> (*fields)(OpAttrs& attrs) = nullptr;
  // The types of the outputs, or why the inputs or attributes do not fit. All outputs are F32
  // except quantize's. REQUIRES: the inputs' ids are values of `graph`.
  Result<std::vector<ValueType>> (*shape)(const Graph& graph, const Op& op) = nullptr;
  // REQUIRES: the op passed its shape function.
  Cost (*cost)(const Graph& graph, const Op& op, const CostPoint& point) = nullptr;
  // Whether the output may be kActI8 or kActI16 in place of F32. Null: never.
  bool (*may_quantize_output)(const Op& op) = nullptr;
  // Inputs whose memory the single output may take when they die here: an executor computes right
  // when output and input are the same address. Null: none.
  std::vector<size_t> (*in_place)(const Op& op) = nullptr;
};

// All schemas; position i is alternative i of OpAttrs.
std::span<const OpSchema* const> OpSchemas();

const OpSchema& SchemaOf(const OpAttrs& attrs);

// Null when there is no such op.
const OpSchema* FindOpSchema(std::string_view name);

// One per file of this folder.
extern const OpSchema kEmbedSchema;
extern const OpSchema kRmsNormSchema;
extern const OpSchema kLinearSchema;
extern const OpSchema kQuantizeSchema;
extern const OpSchema kAddSchema;
extern const OpSchema kMulSchema;
extern const OpSchema kScaleSchema;
extern const OpSchema kSiluSchema;
extern const OpSchema kGeluSchema;
extern const OpSchema kSoftcapSchema;
extern const OpSchema kRopeSchema;
extern const OpSchema kAttentionSchema;
extern const OpSchema kSelectRowsSchema;
extern const OpSchema kRouteSchema;
extern const OpSchema kExpertsSchema;
extern const OpSchema kGateRowsSchema;
extern const OpSchema kLayerNormSchema;
extern const OpSchema kReluSchema;
extern const OpSchema kSliceHeadsSchema;
extern const OpSchema kJoinHeadsSchema;
extern const OpSchema kPluginSchema;
extern const OpSchema kPermuteSchema;

}  // namespace tenon

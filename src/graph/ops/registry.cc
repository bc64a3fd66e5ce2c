#include "graph/ops/registry.h"

#include <array>
#include <variant>

#include "base/check.h"

namespace tenon {
namespace {

// In the order of OpAttrs' alternatives.
constexpr std::array<const OpSchema*, std::variant_size_v<OpAttrs>> kSchemas = {
    &kEmbedSchema,    &kRmsNormSchema,   &kLinearSchema,     &kQuantizeSchema,   &kAddSchema,
    &kMulSchema,      &kScaleSchema,     &kSiluSchema,       &kGeluSchema,       &kSoftcapSchema,
    &kRopeSchema,     &kAttentionSchema, &kSelectRowsSchema, &kRouteSchema,      &kExpertsSchema,
    &kGateRowsSchema, &kLayerNormSchema, &kReluSchema,       &kSliceHeadsSchema, &kJoinHeadsSchema,
    &kPluginSchema,   &kPermuteSchema,
};

}  // namespace

std::span<const OpSchema* const> OpSchemas() {
  return kSchemas;
}

const OpSchema& SchemaOf(const OpAttrs& attrs) {
  TENON_CHECK(attrs.index() < kSchemas.size());
  return *kSchemas[attrs.index()];
}

const OpSchema* FindOpSchema(std::string_view name) {
  for (const OpSchema* schema : kSchemas) {
    if (schema->name == name)
      return schema;
  }
  return nullptr;
}

}  // namespace tenon

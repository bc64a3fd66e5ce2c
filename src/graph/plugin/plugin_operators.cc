#include "graph/plugin/plugin_operators.h"

#include <fmt/format.h>

#include <utility>

namespace tenon {

Status PluginOperators::Add(const TenonOperator& op) {
  if (Find(op.domain, op.name).ok())
    return InvalidArgument(fmt::format("another plugin has {}.{} already", op.domain, op.name));
  operators_.push_back(&op);
  return {};
}

Result<const TenonOperator*> PluginOperators::Find(std::string_view domain,
                                                   std::string_view name) const {
  for (const TenonOperator* op : operators_) {
    if (op->domain == domain && op->name == name)
      return op;
  }
  return NotFound(fmt::format("no plugin has the operator {}.{}", domain, name));
}

Result<std::vector<ValueId>> AddPluginOp(Graph& graph, const PluginOperators& operators,
                                         std::string op_name, PluginCallSpec spec,
                                         std::vector<ValueId> inputs) {
  TENON_ASSIGN_OR_RETURN(const TenonOperator* op, operators.Find(spec.domain, spec.name));
  PluginAttrs attrs;
  attrs.op = op;
  attrs.values = std::move(spec.attributes);
  return graph.AddOp(std::move(op_name), std::move(attrs), std::move(inputs));
}

}  // namespace tenon

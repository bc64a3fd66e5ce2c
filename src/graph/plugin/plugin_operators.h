// PluginOperators: the operators of plug-ins that a graph may have, by domain and name.
//
// Holds pointers to the plug-ins' own tables, which live until the process ends. Threading: const
// after it was filled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "tenon/plugin.h"

namespace tenon {

class PluginOperators {
 public:
  // Fails when one of the same domain and name is there.
  Status Add(const TenonOperator& op);

  // kNotFound, naming the operator.
  Result<const TenonOperator*> Find(std::string_view domain, std::string_view name) const;

 private:
  std::vector<const TenonOperator*> operators_;
};

// An op that an operator of a plug-in computes. Its outputs' types come from the operator's shape
// function. For architectures: DecoderBuilder::Plugin.
struct PluginCallSpec {
  std::string_view domain;
  std::string_view name;
  std::vector<PluginValue> attributes;
};
Result<std::vector<ValueId>> AddPluginOp(Graph& graph, const PluginOperators& operators,
                                         std::string op_name, PluginCallSpec spec,
                                         std::vector<ValueId> inputs);

}  // namespace tenon

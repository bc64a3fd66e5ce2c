// One call of an operator of a plug-in: the host's side of include/tenon/plugin.h.
//
// Programs and graphs run the same operators; each shows its node as a PluginNode. What a plug-in
// answers is checked here: types, ranks and extents. Errors have no `where`: the caller names its
// node. Threading: free functions; one call from one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tenon/plugin.h"

namespace tenon {

// An attribute of a node, where there is one of a kind that plug-ins may ask for.
using PluginAttribute =
    std::variant<std::monostate, const int64_t*, const float*, const std::string*,
                 const std::vector<int64_t>*, const std::vector<float>*>;

// What an operator sees of its node. What it points to is valid during the call.
class PluginNode {
 public:
  virtual ~PluginNode() = default;
  virtual uint32_t input_count() const = 0;
  // None: left out, or beyond the last.
  virtual std::optional<TenonTensor> Input(uint32_t index) const = 0;
  virtual PluginAttribute Find(std::string_view attribute) const = 0;
};

// The node has as many inputs as the operator takes.
Status CheckPluginInputs(const TenonOperator& op, const PluginNode& node);

// The types and shapes of the outputs, as the plug-in's shape function says. Each extent is 0 to
// 2^40. Fails with the plug-in's words when it refuses the inputs.
Result<std::vector<TenonOutput>> PluginShape(const TenonOperator& op, const PluginNode& node);

// Runs the operator into `outputs`, which are as PluginShape said. Fails with the plug-in's words.
Status PluginRun(const TenonOperator& op, const PluginNode& node,
                 std::span<const TenonTensor> outputs);

}  // namespace tenon

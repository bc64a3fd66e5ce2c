#include "graph/plugin/plugin_call.h"

#include <fmt/format.h>

#include "tensor/element_type.h"

namespace tenon {
namespace {

// Far above what memory holds; below it products with a few symbols do not overflow.
constexpr int64_t kMostExtent = int64_t{1} << 40;

// The plug-in's handle. `message` is what it said when it failed.
struct Call {
  const PluginNode& node;
  std::string message;
};

const PluginNode& NodeOf(const TenonCall* call) {
  return reinterpret_cast<const Call*>(call)->node;
}

TenonCall* HandleOf(Call& call) {
  return reinterpret_cast<TenonCall*>(&call);
}

template <class T>
const T* AttributeOf(const TenonCall* call, const char* name) {
  if (name == nullptr)
    return nullptr;
  const PluginAttribute found = NodeOf(call).Find(name);
  const auto* value = std::get_if<const T*>(&found);
  return value == nullptr ? nullptr : *value;
}

template <class T>
int GiveOne(const TenonCall* call, const char* name, T* out) {
  const T* found = AttributeOf<T>(call, name);
  if (found == nullptr)
    return -1;
  *out = *found;
  return 0;
}

template <class T>
int GiveList(const TenonCall* call, const char* name, const T** out, size_t* count) {
  const auto* found = AttributeOf<std::vector<T>>(call, name);
  if (found == nullptr)
    return -1;
  *out = found->data();
  *count = found->size();
  return 0;
}

uint32_t InputCount(const TenonCall* call) {
  return NodeOf(call).input_count();
}

int Input(const TenonCall* call, uint32_t index, TenonTensor* out) {
  const std::optional<TenonTensor> input = NodeOf(call).Input(index);
  if (!input)
    return -1;
  *out = *input;
  return 0;
}

int Text(const TenonCall* call, const char* name, const char** out, size_t* length) {
  const auto* found = AttributeOf<std::string>(call, name);
  if (found == nullptr)
    return -1;
  *out = found->c_str();
  *length = found->size();
  return 0;
}

int Fail(TenonCall* call, const char* message) {
  reinterpret_cast<Call*>(call)->message = message == nullptr ? "" : message;
  return -1;
}

constexpr TenonHost kHost = {
    TENON_PLUGIN_ABI,
    InputCount,
    Input,
    [](const TenonCall* c, const char* name, int64_t* out) { return GiveOne(c, name, out); },
    [](const TenonCall* c, const char* name, float* out) { return GiveOne(c, name, out); },
    Text,
    [](const TenonCall* c, const char* name, const int64_t** out, size_t* count) {
      return GiveList(c, name, out, count);
    },
    [](const TenonCall* c, const char* name, const float** out, size_t* count) {
      return GiveList(c, name, out, count);
    },
    Fail,
};

Status CheckOutput(const TenonOutput& output) {
  const bool known = output.type > 0 && output.type < kElementTypeCount &&
                     ElementBytes(static_cast<ElementType>(output.type)) > 0;
  if (!known || output.rank < 0 || output.rank > TENON_PLUGIN_MAX_RANK)
    return InvalidArgument(
        fmt::format("the plugin says type {} and rank {}", output.type, output.rank));
  for (int32_t d = 0; d < output.rank; ++d) {
    if (output.shape[d] < 0 || output.shape[d] > kMostExtent)
      return InvalidArgument(fmt::format("the plugin says {} for dimension {}, expected 0 to {}",
                                         output.shape[d], d, kMostExtent));
  }
  return {};
}

}  // namespace

Status CheckPluginInputs(const TenonOperator& op, const PluginNode& node) {
  if (node.input_count() >= op.min_inputs && node.input_count() <= op.max_inputs)
    return {};
  return InvalidArgument(fmt::format("{} inputs, {} to {} expected", node.input_count(),
                                     op.min_inputs, op.max_inputs));
}

Result<std::vector<TenonOutput>> PluginShape(const TenonOperator& op, const PluginNode& node) {
  Call call{node, {}};
  // The plug-in may write as many outputs as the interface has, whatever it declared.
  std::vector<TenonOutput> outputs(TENON_PLUGIN_MAX_OUTPUTS);
  if (op.shape(&kHost, HandleOf(call), outputs.data()) != 0)
    return InvalidArgument(fmt::format("the plugin refuses the inputs: {}", call.message));
  outputs.resize(op.output_count);
  for (const TenonOutput& output : outputs)
    TENON_RETURN_IF_ERROR(CheckOutput(output));
  return outputs;
}

Status PluginRun(const TenonOperator& op, const PluginNode& node,
                 std::span<const TenonTensor> outputs) {
  Call call{node, {}};
  if (op.run(&kHost, HandleOf(call), outputs.data()) != 0)
    return InvalidArgument(fmt::format("the plugin failed: {}", call.message));
  return {};
}

}  // namespace tenon

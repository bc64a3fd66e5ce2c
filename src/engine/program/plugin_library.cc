#include "engine/program/plugin_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "graph/plugin/plugin_call.h"

namespace tenon {
namespace {

// A table of more is taken for garbage.
constexpr uint32_t kMostOperators = 10000;
constexpr size_t kLongestName = 256;

TenonTensor ToTensor(const TensorView& view) {
  return {static_cast<int32_t>(view.type), static_cast<int32_t>(view.rank()), view.shape.data(),
          view.data};
}

// A program's node as its operator sees it.
class ProgramPluginNode final : public PluginNode {
 public:
  explicit ProgramPluginNode(const NodeCall& call) : call_(call) {}

  uint32_t input_count() const override { return static_cast<uint32_t>(call_.input_count()); }
  std::optional<TenonTensor> Input(uint32_t index) const override {
    return call_.Has(index) ? std::optional(ToTensor(call_.input(index))) : std::nullopt;
  }
  PluginAttribute Find(std::string_view attribute) const override {
    const ProgramAttribute* found = call_.node().Find(attribute);
    return found == nullptr ? PluginAttribute() : std::visit(PluginKinds(), *found);
  }

 private:
  struct PluginKinds {
    template <class T>
    PluginAttribute operator()(const T& value) const {
      if constexpr (std::is_constructible_v<PluginAttribute, const T*>)
        return &value;
      else
        return {};
    }
  };

  const NodeCall& call_;
};

// The kernel of every plugin operator.
Status RunNode(NodeCall& call, const TenonOperator& op) {
  const ProgramPluginNode node(call);
  TENON_RETURN_IF_ERROR(CheckPluginInputs(op, node));
  TENON_ASSIGN_OR_RETURN(const auto outputs, PluginShape(op, node));
  std::array<TensorView, TENON_PLUGIN_MAX_OUTPUTS> views;
  std::array<TenonTensor, TENON_PLUGIN_MAX_OUTPUTS> tensors = {};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Extents shape(outputs[i].shape, outputs[i].shape + outputs[i].rank);
    TENON_ASSIGN_OR_RETURN(views[i],
                           call.Output(i, static_cast<ElementType>(outputs[i].type), shape));
    tensors[i] = ToTensor(views[i]);
  }
  return PluginRun(op, node, std::span(tensors).first(outputs.size()));
}

Status RunOperator(NodeCall& call) {
  Status status = RunNode(call, *static_cast<const TenonOperator*>(call.context()));
  if (!status.ok() && status.error().where.empty())
    return call.Wrong(std::move(status).error().message);
  return status;
}

bool IsName(const char* text) {
  return text != nullptr && *text != '\0' && std::string_view(text).size() <= kLongestName;
}

bool IsForeignDomain(std::string_view domain) {
  return domain == "ai.onnx" || domain == "com.microsoft" || domain == "tenon" ||
         domain.starts_with("ai.onnx.");
}

Status CheckOperator(const TenonOperator& op, uint32_t index) {
  const auto wrong = [&](std::string_view what) {
    return InvalidArgument(fmt::format("operator {} of the plugin {}", index, what));
  };
  if (!IsName(op.domain) || !IsName(op.name))
    return wrong("has no domain or no name");
  if (IsForeignDomain(op.domain))
    return wrong(fmt::format("takes the domain '{}', which is not a plugin's", op.domain));
  if (op.shape == nullptr || op.run == nullptr)
    return wrong("has no shape or run function");
  if (op.first_version < 1 || op.last_version < op.first_version)
    return wrong(fmt::format("is for the versions {} to {}", op.first_version, op.last_version));
  if (op.min_inputs > op.max_inputs || op.output_count < 1 ||
      op.output_count > TENON_PLUGIN_MAX_OUTPUTS)
    return wrong(fmt::format("has {} to {} inputs and {} outputs", op.min_inputs, op.max_inputs,
                             op.output_count));
  return {};
}

Status CheckPlugin(const TenonPlugin* plugin) {
  if (plugin == nullptr)
    return InvalidArgument("the plugin declines to work with this Tenon");
  if (plugin->abi != TENON_PLUGIN_ABI)
    return InvalidArgument(
        fmt::format("the plugin was built for version {} of the interface, this "
                    "Tenon has version {}",
                    plugin->abi, TENON_PLUGIN_ABI));
  if (!IsName(plugin->name) || !IsName(plugin->version) || plugin->operators == nullptr ||
      plugin->operator_count < 1 || plugin->operator_count > kMostOperators)
    return InvalidArgument("the plugin has no name, no version or no operators");
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (uint32_t i = 0; i < plugin->operator_count; ++i) {
    const TenonOperator& op = plugin->operators[i];
    TENON_RETURN_IF_ERROR(CheckOperator(op, i));
    if (!names.emplace(op.domain, op.name).second)
      return InvalidArgument(fmt::format("the plugin has {}.{} twice", op.domain, op.name));
  }
  return {};
}

}  // namespace

Result<PluginLibrary> PluginLibrary::Open(const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::path whole = std::filesystem::canonical(path, code);
  if (code)
    return NotFound("no such plugin", path.string());
  PluginLibrary library;
  library.path_ = whole.string();
  void* handle = ::dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return InvalidArgument(fmt::format("no shared library that can be loaded: {}", ::dlerror()),
                           library.path_);
  const auto entry = reinterpret_cast<TenonPluginEntry>(::dlsym(handle, TENON_PLUGIN_ENTRY));
  if (entry == nullptr)
    return InvalidArgument("no plugin: it does not export " TENON_PLUGIN_ENTRY, library.path_);
  library.plugin_ = entry(TENON_PLUGIN_ABI);
  if (auto checked = CheckPlugin(library.plugin_); !checked.ok()) {
    checked.error().where = library.path_;
    return std::move(checked).error();
  }
  return library;
}

Status PluginLibrary::AddTo(PluginOperators& operators) const {
  for (uint32_t i = 0; i < plugin_->operator_count; ++i) {
    if (auto added = operators.Add(plugin_->operators[i]); !added.ok()) {
      added.error().where = path_;
      return added;
    }
  }
  return {};
}

Status PluginLibrary::AddTo(OpTable& table) const {
  for (uint32_t i = 0; i < plugin_->operator_count; ++i) {
    const TenonOperator& op = plugin_->operators[i];
    if (table.Find(op.domain, op.name, op.first_version) != nullptr)
      return InvalidArgument(fmt::format("another plugin has {}.{} already", op.domain, op.name),
                             path_);
    ProgramOp added;
    added.domain = op.domain;
    added.name = op.name;
    added.first_version = op.first_version;
    added.last_version = op.last_version;
    added.kernel = RunOperator;
    added.context = &op;
    table.Add(added);
  }
  return {};
}

}  // namespace tenon

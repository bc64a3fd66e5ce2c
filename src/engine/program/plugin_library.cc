#include "engine/program/plugin_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <set>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

// A table of more is taken for garbage.
constexpr uint32_t kMostOperators = 10000;
constexpr size_t kLongestName = 256;

// The plugin's view of a call. `message` is what it said when it failed.
struct Call {
  NodeCall* call = nullptr;
  std::string message;
};

Call& Of(TenonCall* call) {
  return *reinterpret_cast<Call*>(call);
}
const NodeCall& NodeOf(const TenonCall* call) {
  return *reinterpret_cast<const Call*>(call)->call;
}

template <class T>
const T* AttributeOf(const TenonCall* call, const char* name) {
  const ProgramAttribute* found = name == nullptr ? nullptr : NodeOf(call).node().Find(name);
  return found == nullptr ? nullptr : std::get_if<T>(found);
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
  return static_cast<uint32_t>(NodeOf(call).input_count());
}

TenonTensor ToTensor(const TensorView& view) {
  return {static_cast<int32_t>(view.type), static_cast<int32_t>(view.rank()), view.shape.data(),
          view.data};
}

int Input(const TenonCall* call, uint32_t index, TenonTensor* out) {
  if (!NodeOf(call).Has(index))
    return -1;
  *out = ToTensor(NodeOf(call).input(index));
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
  Of(call).message = message == nullptr ? "" : message;
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

// The shape that a plugin said, as ours; an error for nonsense.
Result<TensorView> ToView(const NodeCall& call, const TenonOutput& output) {
  TensorView view;
  const bool known = output.type > 0 && output.type < kElementTypeCount &&
                     ElementBytes(static_cast<ElementType>(output.type)) > 0;
  if (!known || output.rank < 0 || output.rank > TENON_PLUGIN_MAX_RANK)
    return call.Wrong(fmt::format("the plugin says type {} and rank {}", output.type, output.rank));
  view.type = static_cast<ElementType>(output.type);
  view.shape.assign(output.shape, output.shape + output.rank);
  return view;
}

// The kernel of every plugin operator.
Status RunOperator(NodeCall& call) {
  const auto& op = *static_cast<const TenonOperator*>(call.context());
  if (call.input_count() < op.min_inputs || call.input_count() > op.max_inputs)
    return call.Wrong(fmt::format("{} inputs, {} to {} expected", call.input_count(), op.min_inputs,
                                  op.max_inputs));
  Call state{&call, {}};
  auto* handle = reinterpret_cast<TenonCall*>(&state);
  std::array<TenonOutput, TENON_PLUGIN_MAX_OUTPUTS> outputs = {};
  if (op.shape(&kHost, handle, outputs.data()) != 0)
    return call.Wrong(fmt::format("the plugin refuses the inputs: {}", state.message));
  std::array<TensorView, TENON_PLUGIN_MAX_OUTPUTS> views;
  std::array<TenonTensor, TENON_PLUGIN_MAX_OUTPUTS> tensors = {};
  for (uint32_t i = 0; i < op.output_count; ++i) {
    TENON_ASSIGN_OR_RETURN(const TensorView wanted, ToView(call, outputs[i]));
    TENON_ASSIGN_OR_RETURN(views[i], call.Output(i, wanted.type, wanted.shape));
    tensors[i] = ToTensor(views[i]);
  }
  if (op.run(&kHost, handle, tensors.data()) != 0)
    return call.Wrong(fmt::format("the plugin failed: {}", state.message));
  return {};
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

#include "accel/plugin/plugin_source.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tenon {
namespace {

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};

Status CheckTable(const tenon_guess_plugin_table* table, const std::string& where) {
  if (table == nullptr)
    return Unsupported("the plug-in gives no table", where);
  if (table->version != TENON_GUESS_PLUGIN_VERSION) {
    return Unsupported(
        fmt::format("the plug-in is made for version {} of the interface, this is version {}",
                    table->version, TENON_GUESS_PLUGIN_VERSION),
        where);
  }
  if (table->create == nullptr || table->destroy == nullptr || table->propose == nullptr ||
      table->forget == nullptr)
    return Unsupported("a function is missing in the plug-in's table", where);
  return {};
}

}  // namespace

Result<std::unique_ptr<PluginSource>> PluginSource::Load(const std::filesystem::path& path,
                                                         const std::string& options) {
  const std::string where = path.string();
  std::unique_ptr<void, LibraryCloser> library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr)
    return MakeError(ErrorCode::kIo, dlerror(), where);
  using TableFunction = const tenon_guess_plugin_table* (*)();
  const auto get = reinterpret_cast<TableFunction>(dlsym(library.get(), "tenon_guess_plugin"));
  if (get == nullptr)
    return Unsupported("the library exports no tenon_guess_plugin", where);
  const tenon_guess_plugin_table* table = get();
  TENON_RETURN_IF_ERROR(CheckTable(table, where));
  std::array<char, 256> error = {};
  void* plugin = table->create(options.c_str(), error.data(), error.size());
  error.back() = '\0';
  if (plugin == nullptr)
    return InvalidArgument(fmt::format("the plug-in refuses: {}", error.data()), where);
  return std::unique_ptr<PluginSource>(new PluginSource(library.release(), table, plugin));
}

PluginSource::~PluginSource() {
  table_->destroy(plugin_);
  dlclose(library_);
}

Status PluginSource::Propose(std::span<const GuessRequest> requests) {
  for (const GuessRequest& request : requests) {
    SequenceTask& task = *request.task;
    auto& guesses = task.guesses.tokens;
    const auto most = static_cast<int32_t>(request.most);
    guesses.assign(static_cast<size_t>(most), 0);
    const int32_t count =
        table_->propose(plugin_, task.key, task.tokens.data(), task.known(), guesses.data(), most);
    guesses.resize(static_cast<size_t>(std::clamp(count, 0, most)));
  }
  return {};
}

}  // namespace tenon

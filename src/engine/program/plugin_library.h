// PluginLibrary: operators from a shared library (include/tenon/plugin.h).
//
// Owns the library, which stays loaded until the process ends: its code may have left threads and
// exit handlers behind. Threading: const after Open.
#pragma once

#include <deque>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "engine/program/op_table.h"
#include "graph/plugin/plugin_operators.h"
#include "tenon/plugin.h"

namespace tenon {

class PluginLibrary {
 public:
  // kInvalidArgument, saying what is wrong, for a file that is no plugin, another ABI version, an
  // operator without a name or function, one that takes a domain of others, or one twice.
  static Result<PluginLibrary> Open(const std::filesystem::path& path);

  const TenonPlugin& description() const { return *plugin_; }
  // Adds its operators; fails when one is there already. The library must outlive the table.
  Status AddTo(OpTable& table) const;
  // The same for graphs of the engine's own.
  Status AddTo(PluginOperators& operators) const;

 private:
  PluginLibrary() = default;

  std::string path_;
  const TenonPlugin* plugin_ = nullptr;
};

}  // namespace tenon

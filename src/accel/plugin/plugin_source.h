// PluginSource: guesses from a shared library (include/tenon/guess_plugin.h).
//
// Owns the library's handle and its object. What comes back is only taken as far as it keeps the
// limits it was given; the plain engine drops ids outside the vocabulary. Threading: one thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accel/speculation/guess_source.h"
#include "tenon/guess_plugin.h"

namespace tenon {

class PluginSource : public GuessSource {
 public:
  // `options`: the JSON that the plug-in gets. Fails with kIo when the library can't be loaded,
  // kUnsupported when it has no table, another version or holes in it, and with what it says
  // itself.
  static Result<std::unique_ptr<PluginSource>> Load(const std::filesystem::path& library,
                                                    const std::string& options);
  ~PluginSource() override;

  Status Propose(std::span<const GuessRequest> requests) override;
  void Forget(SequenceKey key) override { table_->forget(plugin_, key); }
  void ForgetAll() override {}  // each sequence is forgotten when it is over

 private:
  PluginSource(void* library, const tenon_guess_plugin_table* table, void* plugin)
      : library_(library), table_(table), plugin_(plugin) {}

  void* library_;
  const tenon_guess_plugin_table* table_;
  void* plugin_;
};

}  // namespace tenon

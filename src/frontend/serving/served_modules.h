// ServedModules: the modules of one server, from the configuration to their control: memory quotas,
// supervision, and a configuration file that is followed while the server runs.
//
// A module that needs more than its quota is left out with a warning; one that is configured wrong
// ends the start. Ownership: the model outlives it; it outlives the serving engine, but for the
// control, which Control makes and which needs the engine. Threading: Create and Control by the
// starting thread; steps() for the engine's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "accel/manager/supervised_engine.h"
#include "base/result.h"
#include "frontend/serving/module_control.h"
#include "frontend/session/module_config.h"
#include "frontend/session/module_set.h"

namespace tenon {

class ServedModules {
 public:
  // Null without modules in the configuration.
  static Result<std::unique_ptr<ServedModules>> Create(Model& model, const ModuleConfig& config);

  StepEngine& steps() { return *supervised_; }

  // The control of these modules on `engine`, which outlives it.
  std::unique_ptr<ModuleControl> Control(ServingEngine& engine);

  ModuleSet& set() { return *set_; }

 private:
  ServedModules() = default;

  std::unique_ptr<ModuleSet> set_;
  std::unique_ptr<SupervisedEngine> supervised_;
};

// Brings a running server to what `now` says, given what `before` said: limits, modules that went
// or came back, other options. A module that was not there when the server started is an error; the
// rest is done all the same. The first error is returned.
Status ApplyModuleConfig(ModuleControl& control, const ModuleConfig& before,
                         const ModuleConfig& now);

// The fields that differ and that a running server can't take over, in words; empty: none.
std::string RestartOnlyChanges(const ModuleConfig& started, const ModuleConfig& now);

// Reads the file again when it changes and applies it; errors go to the log and leave the server as
// it is. So do changes that need a restart, and once that the file is gone. Threading: owns a
// thread, which ends with it.
class ConfigFollower {
 public:
  ConfigFollower(std::filesystem::path path, ModuleControl& control, ModuleConfig applied);
  ~ConfigFollower();
  ConfigFollower(const ConfigFollower&) = delete;
  ConfigFollower& operator=(const ConfigFollower&) = delete;

  // How soon a change is seen.
  static constexpr std::chrono::milliseconds kPeriod{1000};

 private:
  void Run(const std::stop_token& stop);
  void Look();
  void Reload();

  std::filesystem::path path_;
  ModuleControl& control_;
  const ModuleConfig started_;
  ModuleConfig applied_;
  std::filesystem::file_time_type seen_;
  bool is_gone_ = false;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace tenon

// ModuleSet: the acceleration modules of one loaded model, made from a configuration: the plain
// engine, the chain in front of it, and the models that modules need beside the target.
//
// Owns them. The model outlives the set. Threading: Create on any thread; steps() and chain() as
// step engines, on the thread that steps.
#pragma once

#include <memory>

#include "accel/module_chain.h"
#include "accel/module_context.h"
#include "accel/plain_engine.h"
#include "base/result.h"
#include "frontend/session/model.h"
#include "frontend/session/module_config.h"

namespace tenon {

class ModuleSet {
 public:
  // Fails as the modules do. REQUIRES: the model is loaded.
  static Result<std::unique_ptr<ModuleSet>> Create(Model& model, const ModuleConfig& config);

  // A module that is not in the chain yet; also for reconfiguring one. Loads what it needs.
  Result<std::unique_ptr<Module>> Make(const ModuleConfig::Entry& entry, int64_t quota_bytes);

  ModuleChain& chain() { return chain_; }
  StepEngine& steps() { return chain_; }

  // Output rows that a step needs beside one for each sequence, so that a few sequences can have
  // their guesses verified at once.
  static constexpr int64_t kGuessRows = 32;

 private:
  ModuleSet(Model& model, std::string fingerprint, std::unique_ptr<ModelProvider> models);

  Model& model_;
  std::string fingerprint_;
  std::unique_ptr<ModelProvider> models_;
  PlainEngine plain_;
  ModuleChain chain_;
};

}  // namespace tenon

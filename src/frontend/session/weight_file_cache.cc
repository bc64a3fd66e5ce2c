#include "frontend/session/weight_file_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file_io.h"
#include "base/log.h"
#include "frontend/session/image_check.h"
#include "frontend/store/environment.h"
#include "frontend/store/sha256.h"
#include "frontend/store/store.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".weights";
constexpr std::string_view kPartial = ".partial";
// Of each tensor; training or quantizing moves nearly every weight.
constexpr size_t kSampleBytes = 64;
// A writer that has not finished after so long was killed.
constexpr std::chrono::hours kAbandoned{1};

void AddText(Sha256& hash, std::string_view text) {
  hash.Update(std::as_bytes(std::span(text)));
}

Status AddFile(const MappedFile& file, Sha256& hash) {
  struct stat info = {};
  if (::stat(file.path().c_str(), &info) != 0)
    return SystemError("can't stat", file.path());
  AddText(hash, fmt::format("{} {} {}\n", file.size(), info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
  return {};
}

Status AddTensor(const ModelSource& source, const TensorInfo& tensor, Sha256& hash) {
  AddText(hash, fmt::format("{} {} {}\n", tensor.name, static_cast<int>(tensor.dtype),
                            fmt::join(tensor.shape, "x")));
  std::array<std::byte, kSampleBytes> sample;
  const auto bytes = std::span(sample).first(std::min<uint64_t>(kSampleBytes, tensor.bytes));
  TENON_RETURN_IF_ERROR(source.ReadAt(tensor, (tensor.bytes - bytes.size()) / 2, bytes));
  hash.Update(bytes);
  return {};
}

std::string HashText(std::string_view text) {
  Sha256 hash;
  AddText(hash, text);
  return hash.Finish();
}

// The model's own path: of its only file, or the directory of its files.
std::string OriginOf(const ModelSource& source) {
  if (source.files.empty())
    return {};
  std::error_code ignored;
  const fs::path path = fs::weakly_canonical(source.files.front().path(), ignored);
  return path.string();
}

// Maps the image, compared with its digest unless it was since it last changed.
Result<WeightImage> OpenChecked(const fs::path& path, const WeightImageLabel& label,
                                ThreadPool& pool) {
  const std::string state = ImageState(path);
  TENON_ASSIGN_OR_RETURN(WeightImage image, OpenWeightImage(path, label));
  if (IsImageChecked(path, state)) {
    MarkImageUsed(path);
    return image;
  }
  TENON_RETURN_IF_ERROR(CheckWeightImage(image, pool));
  RememberImageCheck(path, state);
  return image;
}

std::vector<fs::path> FilesIn(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    files.push_back(entry->path());
  return files;
}

void RemoveAbandoned(const fs::path& directory) {
  const fs::file_time_type limit = fs::file_time_type::clock::now() - kAbandoned;
  for (const fs::path& file : FilesIn(directory)) {
    std::error_code ignored;
    const bool is_left = file.extension() == kPartial && LastImageUse(file) < limit;
    if (is_left || IsCheckWithoutImage(file))
      fs::remove(file, ignored);
  }
}

class WeightFileCache final : public WeightCache {
 public:
  WeightFileCache(fs::path directory, WeightImageLabel label, const WeightCacheOptions& options)
      : directory_(std::move(directory)), label_(std::move(label)), options_(options) {}
  ~WeightFileCache() override {
    if (writer_.joinable())
      writer_.join();
  }

  std::optional<WeightImage> Find(std::string_view layout, uint64_t size,
                                  ThreadPool& pool) override;
  void Save(std::string_view layout, std::span<const std::byte> image) override;

 private:
  fs::path PathOf(const WeightImageLabel& label) const;
  Status Write(const WeightImageLabel& label, std::span<const std::byte> image) const;
  // Makes room for `bytes` more. False: there is none.
  bool MakeRoom(const WeightImageLabel& label, uint64_t bytes) const;

  fs::path directory_;
  WeightImageLabel label_;  // without layout and size
  WeightCacheOptions options_;
  std::thread writer_;
};

// Half of each hash keeps the name short and accidents away.
fs::path WeightFileCache::PathOf(const WeightImageLabel& label) const {
  return directory_ / fmt::format("{:.32}-{:.32}{}", label.identity, label.layout, kSuffix);
}

std::optional<WeightImage> WeightFileCache::Find(std::string_view layout, uint64_t size,
                                                 ThreadPool& pool) {
  if (label_.identity.empty() || size < options_.min_bytes)
    return std::nullopt;
  WeightImageLabel label = label_;
  label.layout = HashText(layout);
  label.size = size;
  const fs::path path = PathOf(label);
  if (!IsOfThisUser(path))
    return std::nullopt;
  Result<WeightImage> image = OpenChecked(path, label, pool);
  if (image.ok()) {
    image->pages = options_.pages;
    return std::move(image).value();
  }
  Log(LogLevel::kWarning, "saved packed weights are not used and made anew: {}",
      image.error().ToString());
  std::error_code ignored;
  RemoveImage(path, ignored);
  return std::nullopt;
}

void WeightFileCache::Save(std::string_view layout, std::span<const std::byte> image) {
  if (label_.identity.empty() || image.size() < options_.min_bytes || writer_.joinable())
    return;
  WeightImageLabel label = label_;
  label.layout = HashText(layout);
  label.size = image.size();
  try {
    writer_ = std::thread([this, label = std::move(label), image] {
      // Only this thread: on Linux a priority belongs to a thread. Tokens go first.
      constexpr int kNice = 10;
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
      const Status written = Write(label, image);
      if (!written.ok())
        Log(LogLevel::kInfo, "packed weights are not kept: {}", written.error().ToString());
    });
  } catch (const std::system_error& error) {
    Log(LogLevel::kInfo, "packed weights are not kept: no thread: {}", error.what());
  }
}

Status WeightFileCache::Write(const WeightImageLabel& label,
                              std::span<const std::byte> image) const {
  TENON_RETURN_IF_ERROR(CreateDirectories(directory_));
  RemoveAbandoned(directory_);
  if (!MakeRoom(label, image.size()))
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("no room for {} bytes beside {} that stay free", image.size(),
                                 options_.free_bytes),
                     directory_.string());
  const fs::path path = PathOf(label);
  fs::path partial = path;
  partial += fmt::format(".{}{}", ::getpid(), kPartial);
  std::error_code error;
  fs::remove(partial, error);
  Status status = WriteWeightImage(partial, label, image);
  if (status.ok()) {
    // Not synced: a file that a power failure has torn is noticed by its digest.
    fs::rename(partial, path, error);
    if (!error)
      return {};
    status = MakeError(ErrorCode::kIo, "can't rename: " + error.message(), partial.string());
  }
  fs::remove(partial, error);
  return status;
}

// Images of what this model was before it changed go first.
bool WeightFileCache::MakeRoom(const WeightImageLabel& label, uint64_t bytes) const {
  if (bytes > options_.max_bytes)
    return false;
  std::vector<CachedWeights> files = ListCachedWeights(directory_);
  std::stable_partition(files.begin(), files.end(), [&](const CachedWeights& file) {
    return file.label.origin == label.origin && file.label.identity != label.identity;
  });
  uint64_t total = 0;
  for (const CachedWeights& file : files)
    total += file.file_bytes;
  for (const CachedWeights& file : files) {
    const bool outdated =
        file.label.origin == label.origin && file.label.identity != label.identity;
    if (!outdated && total <= options_.max_bytes - bytes)
      break;
    std::error_code ignored;
    RemoveImage(file.path, ignored);
    total -= file.file_bytes;
  }
  const Result<uint64_t> free = FreeDiskBytes(directory_);
  return free.ok() && *free >= bytes && *free - bytes >= options_.free_bytes;
}

}  // namespace

fs::path DefaultWeightCacheDirectory() {
  const StoreSettings settings = ReadStoreSettings(ProcessEnvironment());
  return settings.home.empty() ? fs::path() : settings.home / "cache" / "weights";
}

Result<std::string> WeightIdentity(const ModelSource& source) {
  Sha256 hash;
  const ModelConfig& config = source.config;
  AddText(hash, fmt::format("{} {} {} {} {}\n", source.format, config.architecture,
                            config.hidden_size, config.layer_count, config.vocab_size));
  for (const MappedFile& file : source.files)
    TENON_RETURN_IF_ERROR(AddFile(file, hash));
  for (const TensorInfo& tensor : source.tensors)
    TENON_RETURN_IF_ERROR(AddTensor(source, tensor, hash));
  return hash.Finish();
}

std::unique_ptr<WeightCache> OpenWeightFileCache(const fs::path& directory,
                                                 const ModelSource& source,
                                                 const WeightCacheOptions& options) {
  WeightImageLabel label;
  Result<std::string> identity = WeightIdentity(source);
  if (identity.ok())
    label.identity = std::move(identity).value();
  else
    Log(LogLevel::kInfo, "packed weights are not kept: {}", identity.error().ToString());
  label.origin = OriginOf(source);
  return std::make_unique<WeightFileCache>(directory, std::move(label), options);
}

std::vector<CachedWeights> ListCachedWeights(const fs::path& directory) {
  std::vector<std::pair<fs::file_time_type, CachedWeights>> found;
  for (const fs::path& file : FilesIn(directory)) {
    if (file.extension() != kSuffix || !IsOfThisUser(file))
      continue;
    Result<WeightImageLabel> label = ReadWeightImageLabel(file);
    if (!label.ok())
      continue;
    std::error_code error;
    const uintmax_t bytes = fs::file_size(file, error);
    if (!error)
      found.emplace_back(LastImageUse(file), CachedWeights{file, std::move(label).value(), bytes});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CachedWeights> files;
  for (auto& [time, file] : found)
    files.push_back(std::move(file));
  return files;
}

Status RemoveCachedWeights(const fs::path& directory, const fs::path& origin) {
  std::error_code error;
  const std::string wanted = fs::weakly_canonical(origin, error).string();
  for (const CachedWeights& file : ListCachedWeights(directory)) {
    const std::string& made_from = file.label.origin;
    if (made_from != wanted && !made_from.starts_with(wanted + "/"))
      continue;
    if (!RemoveImage(file.path, error))
      return MakeError(ErrorCode::kIo, "can't remove: " + error.message(), file.path.string());
  }
  return {};
}

}  // namespace tenon

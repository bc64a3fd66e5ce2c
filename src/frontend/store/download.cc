#include "frontend/store/download.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/file_io.h"
#include "base/log.h"
#include "frontend/store/ascii.h"
#include "frontend/store/sha256.h"
#include "frontend/store/url.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// A try that brought at least this much counts as a success of the network: the count of failures
// starts again, so that a long download survives many short interruptions.
constexpr uint64_t kProgressBytes = 1 << 20;
// An ETag is a short text; a longer one is not kept.
constexpr size_t kMaxEtagBytes = 1024;
// Room that is left to others on the disk.
constexpr uint64_t kReservedDiskBytes = 16 << 20;

fs::path EtagPath(const fs::path& path) {
  return path.string() + ".etag";
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || text.empty())
    return std::nullopt;
  return number;
}

// "bytes 100-199/1000"; "*" instead of a number is nullopt.
struct ContentRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> total;
};

ContentRange ParseContentRange(std::string_view text) {
  ContentRange range;
  if (!LowerCaseAscii(text.substr(0, 6)).starts_with("bytes "))
    return range;
  text.remove_prefix(6);
  const size_t slash = text.find('/');
  const size_t dash = text.find('-');
  if (slash == std::string_view::npos)
    return range;
  range.total = ParseNumber(text.substr(slash + 1));
  if (dash < slash)
    range.first = ParseNumber(text.substr(0, dash));
  return range;
}

// A strong ETag names exact bytes; a weak one (W/"...") must not be used to continue a file.
bool IsStrongEtag(std::string_view etag) {
  return etag.size() >= 2 && etag.size() <= kMaxEtagBytes && etag.front() == '"' &&
         etag.back() == '"';
}

// Writes a response to the file, from the point at which the file ends.
class FileSink : public HttpSink {
 public:
  FileSink(const DownloadJob& job, FileWriter& file, Sha256& hash)
      : job_(job), file_(file), hash_(hash) {}

  Status OnHead(const HttpHead& head) override {
    url_ = RedactUrl(head.url);
    const std::optional<uint64_t> length = ParseNumber(head.Header("content-length"));
    if (head.status == 206) {
      const ContentRange range = ParseContentRange(head.Header("content-range"));
      if (range.first != file_.size())
        return Mismatch("the start of the range", range.first, file_.size());
      total_ = range.total;
    } else {
      TENON_RETURN_IF_ERROR(StartAnew());
      total_ = length;
    }
    if (job_.bytes.has_value() && total_.has_value() && total_ != job_.bytes)
      return Mismatch("the file's length", total_, *job_.bytes);
    if (!total_.has_value())
      total_ = job_.bytes;
    KeepEtag(head.Header("etag"));
    return CheckDiskSpace(job_.path.parent_path(), total_.value_or(0) - Done());
  }

  Status OnBody(std::span<const std::byte> bytes) override {
    if (total_.has_value() && bytes.size() > *total_ - Done())
      return Corrupt(fmt::format("more than the {} bytes that were announced", *total_), url_);
    TENON_RETURN_IF_ERROR(file_.Write(bytes));
    hash_.Update(bytes);
    if (job_.on_progress)
      job_.on_progress(file_.size(), total_.value_or(0));
    return {};
  }

  // The whole length, once a response has told it.
  std::optional<uint64_t> total() const { return total_; }

 private:
  // The bytes in the file, at most the total.
  uint64_t Done() const {
    return total_.has_value() ? std::min(file_.size(), *total_) : file_.size();
  }

  Status StartAnew() {
    hash_.Finish();
    return file_.Truncate(0);
  }

  Error Mismatch(std::string_view what, std::optional<uint64_t> found, uint64_t expected) const {
    const std::string text = found.has_value() ? fmt::format("{}", *found) : "not told";
    return Corrupt(fmt::format("{} is {}, expected {}", what, text, expected), url_);
  }

  // Without a mark the next try can continue only by the digest; losing it is harmless.
  void KeepEtag(std::string_view etag) const {
    if (!IsStrongEtag(etag)) {
      std::error_code ignored;
      fs::remove(EtagPath(job_.path), ignored);
      return;
    }
    if (Status status = WriteFileAtomic(EtagPath(job_.path), etag); !status.ok())
      Log(LogLevel::kWarning, "{}", status.error().ToString());
  }

  const DownloadJob& job_;
  FileWriter& file_;
  Sha256& hash_;
  std::string url_;
  std::optional<uint64_t> total_;
};

// One Download call.
class Downloader {
 public:
  Downloader(HttpClient& client, const DownloadJob& job, FileWriter file)
      : client_(client), job_(job), file_(std::move(file)) {}

  Result<DownloadedFile> Run() {
    TENON_RETURN_IF_ERROR(PrepareToContinue());
    const bool continued = file_.size() > 0;
    Result<DownloadedFile> result = FetchAndCheck();
    if (continued && IsCorrupt(result)) {
      // What an earlier call left may have been the start of another file: once more, from nothing.
      Log(LogLevel::kWarning, "starting the download again: {}", result.error().ToString());
      TENON_RETURN_IF_ERROR(Discard());
      result = FetchAndCheck();
    }
    if (IsCorrupt(result))
      RemoveDownload(job_.path);
    return result;
  }

 private:
  static bool IsCorrupt(const Result<DownloadedFile>& result) {
    return !result.ok() && result.error().code == ErrorCode::kCorrupt;
  }

  Result<DownloadedFile> FetchAndCheck() {
    TENON_RETURN_IF_ERROR(FetchWithRetries());
    TENON_RETURN_IF_ERROR(file_.Sync());
    DownloadedFile done{file_.size(), hash_.Finish()};
    const std::string where = RedactUrl(job_.request.url);
    if (job_.bytes.has_value() && done.bytes != *job_.bytes)
      return Corrupt(fmt::format("{} bytes came, expected {}", done.bytes, *job_.bytes), where);
    if (!job_.sha256.empty() && done.sha256 != job_.sha256) {
      return Corrupt(fmt::format("the file's sha256 is {}, expected {}", done.sha256, job_.sha256),
                     where);
    }
    return done;
  }

  // Keeps what an earlier call left if it can be told that it is the start of the same file.
  Status PrepareToContinue() {
    Result<std::string> etag = ReadWholeFile(EtagPath(job_.path), kMaxEtagBytes);
    if (etag.ok() && IsStrongEtag(*etag))
      etag_ = std::move(etag).value();
    const bool too_long = job_.bytes.has_value() && file_.size() > *job_.bytes;
    if (too_long || (etag_.empty() && job_.sha256.empty()))
      return Discard();
    return HashFile(job_.path, hash_);
  }

  Status Discard() {
    hash_.Finish();
    etag_.clear();
    std::error_code ignored;
    fs::remove(EtagPath(job_.path), ignored);
    return file_.Truncate(0);
  }

  FetchRequest NextRequest() const {
    FetchRequest request = job_.request;
    request.headers.push_back("Accept-Encoding: identity");
    if (file_.size() == 0)
      return request;
    request.headers.push_back(fmt::format("Range: bytes={}-", file_.size()));
    if (!etag_.empty())
      request.headers.push_back("If-Range: " + etag_);
    return request;
  }

  Status FetchWithRetries() {
    int failures = 0;
    for (;;) {
      if (file_.size() > 0 && job_.bytes == file_.size())
        return {};
      const uint64_t before = file_.size();
      FileSink sink(job_, file_, hash_);
      HttpOutcome outcome = client_.Fetch(NextRequest(), sink);
      if (!outcome.error.has_value() && IsComplete(sink))
        return {};
      if (outcome.head.status == 416) {
        if (ParseContentRange(outcome.head.Header("content-range")).total == before)
          return {};
        return Corrupt("the server has less than was loaded earlier", RedactUrl(outcome.head.url));
      }
      TENON_RETURN_IF_ERROR(ReviewFailure(outcome, before, failures));
    }
  }

  bool IsComplete(const FileSink& sink) const {
    return !sink.total().has_value() || file_.size() == *sink.total();
  }

  // Waits if another try makes sense, else fails with the reason.
  Status ReviewFailure(HttpOutcome& outcome, uint64_t before, int& failures) {
    Error error = outcome.error.value_or(
        MakeError(ErrorCode::kIo, "the connection ended early", RedactUrl(job_.request.url)));
    const bool transient = !outcome.error.has_value() || outcome.advice == RetryAdvice::kTransient;
    failures = file_.size() >= before + kProgressBytes ? 1 : failures + 1;
    if (!transient || failures >= client_.settings().max_tries)
      return error;
    Log(LogLevel::kInfo, "continuing at byte {}: {}", file_.size(), error.ToString());
    if (Result<std::string> etag = ReadWholeFile(EtagPath(job_.path), kMaxEtagBytes); etag.ok())
      etag_ = std::move(etag).value();
    // Bytes that nothing can prove to belong to the rest are not worth keeping.
    if (etag_.empty() && job_.sha256.empty())
      TENON_RETURN_IF_ERROR(Discard());
    return client_.WaitToRetry(failures, outcome.retry_after);
  }

  HttpClient& client_;
  const DownloadJob& job_;
  FileWriter file_;
  Sha256 hash_;
  std::string etag_;
};

}  // namespace

Result<DownloadedFile> Download(HttpClient& client, const DownloadJob& job) {
  TENON_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(job.path));
  return Downloader(client, job, std::move(file)).Run();
}

Status CheckDiskSpace(const fs::path& directory, uint64_t bytes) {
  TENON_ASSIGN_OR_RETURN(const uint64_t free, FreeDiskBytes(directory));
  const uint64_t usable = free - std::min(free, kReservedDiskBytes);
  if (bytes <= usable)
    return {};
  return MakeError(
      ErrorCode::kResourceExhausted,
      fmt::format("{} ({} bytes) are needed on the disk, {} are free ({} are kept free)",
                  FormatBytes(bytes), bytes, FormatBytes(free), FormatBytes(kReservedDiskBytes)),
      directory.string());
}

void RemoveDownload(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
  fs::remove(EtagPath(path), ignored);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace tenon

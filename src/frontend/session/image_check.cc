#include "frontend/session/image_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// A random number of the kernel, drawn anew at each boot.
constexpr const char* kBootFile = "/proc/sys/kernel/random/boot_id";

// Times of change come in steps of the kernel's clock, up to 10 ms: after so long, the next change
// has another time.
constexpr std::chrono::milliseconds kClockSteps{20};

bool ChangedJustNow(const timespec& change) {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto age = now - seconds(change.tv_sec) - nanoseconds(change.tv_nsec);
  return age < kClockSteps;
}

constexpr const char* kSuffix = ".checked";

fs::path CheckPath(const fs::path& image) {
  fs::path path = image;
  path += kSuffix;
  return path;
}

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

fs::file_time_type TimeOfChange(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return error ? fs::file_time_type::min() : time;
}

}  // namespace

bool IsOfThisUser(const fs::path& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid();
}

std::string ImageState(const fs::path& image) {
  const std::string boot = FirstLine(kBootFile);
  struct stat info = {};
  if (boot.empty() || ::stat(image.c_str(), &info) != 0 || ChangedJustNow(info.st_ctim))
    return {};
  return fmt::format("{} {} {} {} {}.{:09} {}.{:09}", boot, info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                     info.st_ctim.tv_nsec);
}

bool IsImageChecked(const fs::path& image, const std::string& state) {
  const fs::path path = CheckPath(image);
  return !state.empty() && IsOfThisUser(path) && FirstLine(path) == state;
}

void RememberImageCheck(const fs::path& image, const std::string& state) {
  const fs::path path = CheckPath(image);
  fs::path partial = path;
  partial += fmt::format(".{}.partial", ::getpid());
  std::error_code error;
  // Not synced: after a power failure its boot is over.
  const bool is_written = !!(std::ofstream(partial) << state << '\n' << std::flush);
  if (is_written)
    fs::rename(partial, path, error);
  if (!is_written || error)
    fs::remove(partial, error);
}

void MarkImageUsed(const fs::path& image) {
  ::utimensat(AT_FDCWD, CheckPath(image).c_str(), nullptr, 0);
}

fs::file_time_type LastImageUse(const fs::path& image) {
  return std::max(TimeOfChange(image), TimeOfChange(CheckPath(image)));
}

bool IsCheckWithoutImage(const fs::path& path) {
  std::error_code error;
  return path.extension() == kSuffix && !fs::exists(fs::path(path).replace_extension(), error) &&
         !error;
}

bool RemoveImage(const fs::path& image, std::error_code& error) {
  std::error_code ignored;
  fs::remove(CheckPath(image), ignored);
  fs::remove(image, error);
  return !error;
}

}  // namespace tenon

#include "model/onnx/external_data.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <system_error>

namespace tenon {
namespace {

namespace fs = std::filesystem;

Error Refuse(std::string_view location, std::string_view why) {
  return Corrupt(fmt::format("external data at '{}': {}", location, why));
}

bool IsConfinedText(std::string_view location) {
  const fs::path path(location);
  if (location.empty() || path.is_absolute() || location.find('\0') != std::string_view::npos ||
      location.find('\\') != std::string_view::npos || location.find(':') != std::string_view::npos)
    return false;
  return std::find(path.begin(), path.end(), fs::path("..")) == path.end();
}

bool IsInside(const fs::path& path, const fs::path& directory) {
  const auto [end, rest] =
      std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end();
}

// models--org--name/blobs for a directory models--org--name/snapshots/<commit>[/...]; else empty.
fs::path CacheBlobs(const fs::path& directory) {
  for (fs::path at = directory; at.has_relative_path(); at = at.parent_path()) {
    const fs::path parent = at.parent_path();
    if (parent.filename() == "snapshots" &&
        parent.parent_path().filename().string().starts_with("models--"))
      return parent.parent_path() / "blobs";
  }
  return {};
}

}  // namespace

Result<fs::path> ResolveExternalFile(const fs::path& directory, std::string_view location) {
  if (!IsConfinedText(location))
    return Refuse(location, "a relative path inside the model's directory expected");
  std::error_code error;
  const fs::path root = fs::canonical(directory.empty() ? fs::path(".") : directory, error);
  if (error)
    return Refuse(location, "the model's directory can't be resolved");
  const fs::path target = fs::canonical(root / fs::path(location), error);
  if (error)
    return NotFound(fmt::format("external data: {}", error.message()),
                    (root / fs::path(location)).string());
  const fs::path blobs = CacheBlobs(root);
  if (!IsInside(target, root) && (blobs.empty() || !IsInside(target, blobs)))
    return Refuse(location,
                  fmt::format("it leads out of the model's directory, to {}", target.string()));
  struct stat status = {};
  if (::stat(target.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    return Refuse(location, "no regular file");
  if (status.st_nlink > 1)
    return Refuse(location, "the file has another name as well (a hard link)");
  return target;
}

}  // namespace tenon

// Download: one file from the network to the disk, continued where an earlier try stopped.
//
// The file grows under `path` itself, so `path` is a temporary name of the caller's. When the call
// fails half-way, what has come stays for the next call, with the server's version mark (ETag) next
// to it in "<path>.etag". Memory: one network buffer. Threading: one download per path at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "frontend/store/http_client.h"

namespace tenon {

struct DownloadJob {
  FetchRequest request;
  std::filesystem::path path;
  std::optional<uint64_t> bytes;  // the exact length, where known
  std::string sha256;             // the digest in lower case, "" if not known
  // Called often, with the bytes on the disk and the whole length (0: not known).
  std::function<void(uint64_t done, uint64_t total)> on_progress;
};

struct DownloadedFile {
  uint64_t bytes = 0;
  std::string sha256;
};

// Returns when the whole file is at job.path and has the expected length and digest. A file of
// another length or digest is removed and reported as kCorrupt; too little space on the disk is
// kResourceExhausted, before anything is written.
Result<DownloadedFile> Download(HttpClient& client, const DownloadJob& job);

// Fails with kResourceExhausted, naming both numbers, unless `directory` has room for `bytes`.
Status CheckDiskSpace(const std::filesystem::path& directory, uint64_t bytes);

// Removes the file of an unfinished download and its version mark.
void RemoveDownload(const std::filesystem::path& path);

// "93.8 MiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace tenon

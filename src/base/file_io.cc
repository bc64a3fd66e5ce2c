#include "base/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

ErrorCode CodeOfErrno(int number) {
  switch (number) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kResourceExhausted;
    default:
      return ErrorCode::kIo;
  }
}

int OpenRetrying(const fs::path& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

Status SyncDirectory(const fs::path& directory) {
  FileDescriptor descriptor(OpenRetrying(directory, O_RDONLY | O_DIRECTORY));
  if (descriptor.get() < 0)
    return SystemError("can't open the directory", directory);
  // Some file systems can't sync a directory and say EINVAL: there is nothing more to do there.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL)
    return SystemError("can't sync the directory", directory);
  return {};
}

fs::path ParentOf(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

// A name next to `path` that no other thread or process uses now.
fs::path TemporaryNameFor(const fs::path& path) {
  static std::atomic<uint32_t> counter{0};
  return fs::path(path.string() + fmt::format(".{}-{}.tmp", ::getpid(), counter.fetch_add(1)));
}

Status WriteAndSync(const fs::path& path, std::string_view bytes) {
  TENON_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Open(path));
  TENON_RETURN_IF_ERROR(writer.Truncate(0));
  TENON_RETURN_IF_ERROR(writer.Write(std::as_bytes(std::span(bytes))));
  return writer.Sync();
}

}  // namespace

Error SystemError(std::string_view action, const fs::path& path) {
  const int number = errno;
  return MakeError(CodeOfErrno(number), fmt::format("{}: {}", action, std::strerror(number)),
                   path.string());
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Result<std::string> ReadWholeFile(const fs::path& path, uint64_t max_bytes) {
  FileDescriptor descriptor(OpenRetrying(path, O_RDONLY));
  if (descriptor.get() < 0)
    return SystemError("can't open", path);
  std::string content;
  char chunk[16384];
  for (;;) {
    const ssize_t count = ::read(descriptor.get(), chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return SystemError("can't read", path);
    if (count == 0)
      return content;
    if (static_cast<uint64_t>(count) > max_bytes - content.size()) {
      return MakeError(ErrorCode::kResourceExhausted,
                       fmt::format("longer than the {} bytes that are allowed here", max_bytes),
                       path.string());
    }
    content.append(chunk, static_cast<size_t>(count));
  }
}

Status WriteFileAtomic(const fs::path& path, std::string_view bytes) {
  const fs::path temporary = TemporaryNameFor(path);
  Status status = WriteAndSync(temporary, bytes);
  if (status.ok())
    status = RenameDurably(temporary, path);
  if (!status.ok())
    ::unlink(temporary.c_str());
  return status;
}

Status RenameDurably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return SystemError(fmt::format("can't rename to '{}'", to.string()), from);
  return SyncDirectory(ParentOf(to));
}

Status CreateDirectories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return MakeError(CodeOfErrno(error.value()),
                     fmt::format("can't create the directory: {}", error.message()),
                     directory.string());
  }
  return {};
}

Result<uint64_t> FreeDiskBytes(const fs::path& directory) {
  struct statvfs info = {};
  if (::statvfs(directory.c_str(), &info) != 0)
    return SystemError("can't ask for the free space", directory);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

Result<FileWriter> FileWriter::Open(const fs::path& path) {
  FileDescriptor descriptor(OpenRetrying(path, O_WRONLY | O_CREAT | O_APPEND));
  if (descriptor.get() < 0)
    return SystemError("can't open for writing", path);
  struct stat info = {};
  if (::fstat(descriptor.get(), &info) != 0)
    return SystemError("can't stat", path);
  if (!S_ISREG(info.st_mode))
    return InvalidArgument("not a regular file", path.string());
  return FileWriter(std::move(descriptor), path, static_cast<uint64_t>(info.st_size));
}

Status FileWriter::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return SystemError("can't write", path_);
    size_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status FileWriter::Truncate(uint64_t size) {
  TENON_CHECK(size <= size_);
  if (::ftruncate(descriptor_.get(), static_cast<off_t>(size)) != 0)
    return SystemError("can't truncate", path_);
  size_ = size;
  return {};
}

Status FileWriter::Sync() {
  if (::fsync(descriptor_.get()) != 0)
    return SystemError("can't sync", path_);
  return {};
}

Result<std::optional<FileLock>> FileLock::TryAcquire(const fs::path& path) {
  FileDescriptor descriptor(OpenRetrying(path, O_RDWR | O_CREAT));
  if (descriptor.get() < 0)
    return SystemError("can't open the lock file", path);
  while (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return std::optional<FileLock>();
    if (errno != EINTR)
      return SystemError("can't lock", path);
  }
  return std::optional<FileLock>(FileLock(std::move(descriptor)));
}

}  // namespace tenon

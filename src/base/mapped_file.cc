#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

Error SystemError(std::string_view action, const std::filesystem::path& path) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return MakeError(code, fmt::format("{}: {}", action, std::strerror(errno)), path.string());
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  MappedFile file;
  file.path_ = path;
  // Not blocking: a pipe without a writer is refused below instead of waited for.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0)
    return SystemError("can't open", path);
  struct stat info = {};
  if (::fstat(file.descriptor_, &info) != 0)
    return SystemError("can't stat", path);
  if (!S_ISREG(info.st_mode))
    return InvalidArgument("not a regular file", path.string());
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ == 0)
    return file;
  void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (data == MAP_FAILED)
    return SystemError("can't map", path);
  file.data_ = static_cast<const std::byte*>(data);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other)
    return *this;
  Close();
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

MappedFile::~MappedFile() {
  Close();
}

void MappedFile::Close() {
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Status MappedFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(descriptor_, out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return SystemError("can't read", path_);
    if (count == 0)
      return Corrupt(fmt::format("the file ends at offset {}", offset + done), path_.string());
    done += static_cast<size_t>(count);
  }
  return {};
}

void MappedFile::Release(uint64_t offset, uint64_t count) const {
  TENON_CHECK(offset <= size_ && count <= size_ - offset);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  if (count > 0)
    ::madvise(const_cast<std::byte*>(data_) + begin, offset + count - begin, MADV_DONTNEED);
}

}  // namespace tenon

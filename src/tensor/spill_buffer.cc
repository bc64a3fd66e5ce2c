#include "tensor/spill_buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "base/file_io.h"

namespace tenon {
namespace {

// Open, without a name.
Result<FileDescriptor> OpenNameless(const std::filesystem::path& directory) {
  std::string pattern = (directory / "spill-XXXXXX").string();
  const int descriptor = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor < 0)
    return SystemError("can't create a file in", directory);
  ::unlink(pattern.c_str());
  return FileDescriptor(descriptor);
}

Status Reserve(const FileDescriptor& file, const std::filesystem::path& directory, size_t size) {
  int code = EINTR;
  while (code == EINTR)
    code = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size));
  if (code == 0)
    return {};
  errno = code;
  Error error = SystemError(fmt::format("can't reserve {} bytes in", size), directory);
  if (code == ENOSPC || code == EFBIG)
    error.code = ErrorCode::kResourceExhausted;
  return error;
}

}  // namespace

Result<SpillBuffer> SpillBuffer::Create(const std::filesystem::path& directory, size_t size) {
  if (size == 0)
    return SpillBuffer(nullptr, 0);
  TENON_ASSIGN_OR_RETURN(const FileDescriptor file, OpenNameless(directory));
  TENON_RETURN_IF_ERROR(Reserve(file, directory, size));
  // The mapping keeps the file after its descriptor is closed.
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED)
    return SystemError("can't map a file in", directory);
  return SpillBuffer(static_cast<std::byte*>(data), size);
}

SpillBuffer& SpillBuffer::operator=(SpillBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SpillBuffer::~SpillBuffer() {
  if (data_ != nullptr)
    ::munmap(data_, size_);
}

void SpillBuffer::Release(uint64_t offset, uint64_t count) const {
  TENON_CHECK(offset <= size_ && count <= size_ - offset);
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  if (count > 0)
    ::madvise(data_ + begin, offset + count - begin, MADV_DONTNEED);
}

}  // namespace tenon

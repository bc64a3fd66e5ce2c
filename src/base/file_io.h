// File writing that survives a crash: whole-file reads and writes, an appending writer, a lock.
//
// Every error names the path, the action and what the system said; a full disk is
// kResourceExhausted. Threading: an object belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tenon {

// The error of a system call that has just set errno.
Error SystemError(std::string_view action, const std::filesystem::path& path);

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// The whole file. Fails with kResourceExhausted if it is longer than `max_bytes`.
Result<std::string> ReadWholeFile(const std::filesystem::path& path, uint64_t max_bytes);

// Replaces `path` by these bytes or leaves it as it was, also when the machine stops in between.
Status WriteFileAtomic(const std::filesystem::path& path, std::string_view bytes);

// Renames within one file system and makes the new name durable.
Status RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to);

// Creates the directory and its parents.
Status CreateDirectories(const std::filesystem::path& directory);

// Bytes that this user may still write in the file system of `directory`.
Result<uint64_t> FreeDiskBytes(const std::filesystem::path& directory);

// A file that grows at its end.
class FileWriter {
 public:
  // Opens or creates the file; what is there stays (see Truncate).
  static Result<FileWriter> Open(const std::filesystem::path& path);

  uint64_t size() const { return size_; }
  Status Write(std::span<const std::byte> bytes);
  // Cuts the file to its first `size` bytes. REQUIRES: size <= size().
  Status Truncate(uint64_t size);
  // Returns when the bytes are on the disk.
  Status Sync();

 private:
  FileWriter(FileDescriptor descriptor, std::filesystem::path path, uint64_t size)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), size_(size) {}

  FileDescriptor descriptor_;
  std::filesystem::path path_;
  uint64_t size_ = 0;
};

// An exclusive lock between processes (flock), held while the object lives. The file stays: taking
// it away would let a third process lock another file of the same name.
class FileLock {
 public:
  // Creates the file if needed. nullopt: somebody else holds the lock.
  static Result<std::optional<FileLock>> TryAcquire(const std::filesystem::path& path);

 private:
  explicit FileLock(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  FileDescriptor descriptor_;
};

}  // namespace tenon

// Files of base: MappedFile, atomic writes, the appending writer, locks.
#include "base/file_io.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/mapped_file.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "tenon_base_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      std::abort();
    directory_ = name;
  }
  ~FileTest() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  void Put(const fs::path& path, std::string_view bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string Get(const fs::path& path) const {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }
  size_t FileCount() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  fs::path directory_;
};

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(FileTest, MapsAndReadsAFile) {
  Put(directory_ / "f", "0123456789");
  Result<MappedFile> file = MappedFile::Open(directory_ / "f");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(static_cast<char>(file->bytes()[9]), '9');
  std::array<std::byte, 4> out = {};
  ASSERT_TRUE(file->ReadAt(6, out).ok());
  EXPECT_EQ(static_cast<char>(out[0]), '6');
  EXPECT_EQ(file->ReadAt(7, out).error().code, ErrorCode::kCorrupt);
  file->Release(0, 10);
  EXPECT_EQ(static_cast<char>(file->bytes()[0]), '0');
  MappedFile moved = std::move(file).value();
  EXPECT_EQ(static_cast<char>(moved.bytes()[5]), '5');
  EXPECT_EQ(moved.path(), directory_ / "f");
}

TEST_F(FileTest, MapsAnEmptyFileAndRefusesOthers) {
  Put(directory_ / "empty", "");
  Result<MappedFile> empty = MappedFile::Open(directory_ / "empty");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->bytes().empty());
  EXPECT_EQ(MappedFile::Open(directory_ / "none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(directory_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FileTest, WritesAtomically) {
  const fs::path path = directory_ / "f";
  ASSERT_TRUE(WriteFileAtomic(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "two!").ok());
  EXPECT_EQ(Get(path), "two!");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(FileTest, AFailedAtomicWriteLeavesNothing) {
  fs::create_directories(directory_ / "d" / "inside");
  const Status status = WriteFileAtomic(directory_ / "d", "text");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("rename"), std::string::npos);
  EXPECT_EQ(FileCount(), 1u);
  EXPECT_TRUE(fs::exists(directory_ / "d" / "inside"));
  EXPECT_EQ(WriteFileAtomic(directory_ / "none" / "f", "x").error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, ReadsWholeFilesUpToALimit) {
  Put(directory_ / "f", std::string(20000, 'x'));
  EXPECT_EQ(ReadWholeFile(directory_ / "f", 20000)->size(), 20000u);
  EXPECT_EQ(ReadWholeFile(directory_ / "f", 19999).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ReadWholeFile(directory_ / "none", 10).error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, WriterAppendsAndCuts) {
  Put(directory_ / "f", "abc");
  Result<FileWriter> writer = FileWriter::Open(directory_ / "f");
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->size(), 3u);
  ASSERT_TRUE(writer->Write(Bytes("defg")).ok());
  ASSERT_TRUE(writer->Truncate(5).ok());
  ASSERT_TRUE(writer->Write(Bytes("!")).ok());
  ASSERT_TRUE(writer->Sync().ok());
  EXPECT_EQ(Get(directory_ / "f"), "abcde!");
  EXPECT_EQ(writer->size(), 6u);
}

TEST_F(FileTest, AFullDiskIsResourceExhausted) {
  if (!fs::exists("/dev/full"))
    GTEST_SKIP() << "/dev/full is missing";
  // The writer takes regular files only, so the error is made by hand from the same call.
  EXPECT_EQ(FileWriter::Open("/dev/full").error().code, ErrorCode::kInvalidArgument);
  errno = ENOSPC;
  EXPECT_EQ(SystemError("can't write", "/f").code, ErrorCode::kResourceExhausted);
  errno = EACCES;
  EXPECT_EQ(SystemError("can't open", "/f").ToString(), "/f: can't open: Permission denied");
}

TEST_F(FileTest, LocksExcludeOtherProcessesUntilReleased) {
  const fs::path path = directory_ / "lock";
  Result<std::optional<FileLock>> lock = FileLock::TryAcquire(path);
  ASSERT_TRUE(lock.ok() && lock->has_value());
  const auto acquired_by_child = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto theirs = FileLock::TryAcquire(path);
      ::_exit(theirs.ok() ? (theirs.value().has_value() ? 1 : 0) : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(acquired_by_child(), 0);
  EXPECT_FALSE(FileLock::TryAcquire(path)->has_value());
  lock->reset();
  EXPECT_EQ(acquired_by_child(), 1);
}

TEST_F(FileTest, FreeSpaceIsAPlausibleNumber) {
  const Result<uint64_t> free = FreeDiskBytes(directory_);
  ASSERT_TRUE(free.ok());
  EXPECT_EQ(*free > 0, fs::space(directory_).available > 0);
  EXPECT_FALSE(FreeDiskBytes(directory_ / "none").ok());
}

}  // namespace
}  // namespace tenon

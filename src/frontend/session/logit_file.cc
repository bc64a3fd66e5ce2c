#include "frontend/session/logit_file.h"

#include <fmt/format.h>

#include <cstring>

#include "base/byte_reader.h"

namespace tenon {
namespace {

constexpr std::string_view kMagic = "TENONLP1";
constexpr uint64_t kHeaderBytes = 28;

template <class T>
void Put(std::ofstream& file, T value) {
  file.write(reinterpret_cast<const char*>(&value), sizeof(T));
}

Result<LogitHeader> ReadHeader(const MappedFile& file) {
  ByteReader reader(file.bytes(), file.path().string());
  TENON_ASSIGN_OR_RETURN(const auto magic, reader.ReadBytes(kMagic.size(), "magic"));
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    return Corrupt("not a file of log-probabilities (TENONLP1)", file.path().string());
  LogitHeader header;
  TENON_ASSIGN_OR_RETURN(header.vocabulary, reader.Read<uint32_t>("vocabulary"));
  TENON_ASSIGN_OR_RETURN(header.context, reader.Read<uint32_t>("context"));
  TENON_ASSIGN_OR_RETURN(header.chunks, reader.Read<uint32_t>("chunks"));
  TENON_ASSIGN_OR_RETURN(header.token_hash, reader.Read<uint64_t>("token hash"));
  return header;
}

std::string Describe(const LogitHeader& header) {
  return fmt::format("vocabulary {}, context {}, chunks {}, tokens {:016x}", header.vocabulary,
                     header.context, header.chunks, header.token_hash);
}

}  // namespace

uint64_t HashTokens(std::span<const int32_t> tokens) {
  uint64_t hash = 14695981039346656037ULL;
  for (int32_t token : tokens) {
    hash ^= static_cast<uint32_t>(token);
    hash *= 1099511628211ULL;
  }
  return hash;
}

Result<LogitWriter> LogitWriter::Create(const std::filesystem::path& path,
                                        const LogitHeader& header) {
  LogitWriter writer;
  writer.path_ = path;
  writer.partial_ = path.string() + ".part";
  writer.file_.open(writer.partial_, std::ios::binary | std::ios::trunc);
  writer.file_.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
  Put(writer.file_, header.vocabulary);
  Put(writer.file_, header.context);
  Put(writer.file_, header.chunks);
  Put(writer.file_, header.token_hash);
  if (!writer.file_)
    return MakeError(ErrorCode::kIo, "can't write", path.string());
  return writer;
}

Status LogitWriter::Write(std::span<const float> log_probabilities) {
  file_.write(reinterpret_cast<const char*>(log_probabilities.data()),
              static_cast<std::streamsize>(log_probabilities.size_bytes()));
  if (!file_)
    return MakeError(ErrorCode::kIo, "can't write: is the disk full?", path_.string());
  return {};
}

Status LogitWriter::Close() {
  file_.close();
  if (!file_)
    return MakeError(ErrorCode::kIo, "can't finish writing", path_.string());
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error)
    return MakeError(ErrorCode::kIo, "can't rename the finished file: " + error.message(),
                     path_.string());
  return {};
}

Result<LogitReader> LogitReader::Open(const std::filesystem::path& path,
                                      const LogitHeader& expected) {
  TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(const LogitHeader found, ReadHeader(file));
  if (!(found == expected)) {
    return InvalidArgument(fmt::format("the base was made with {}; this run has {}",
                                       Describe(found), Describe(expected)),
                           path.string());
  }
  LogitReader reader(std::move(file));
  reader.offset_ = kHeaderBytes;
  return reader;
}

Status LogitReader::Read(std::span<float> out) {
  TENON_RETURN_IF_ERROR(file_.ReadAt(offset_, std::as_writable_bytes(out)));
  offset_ += out.size_bytes();
  return {};
}

}  // namespace tenon

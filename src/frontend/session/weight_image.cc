#include "frontend/session/weight_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/file_io.h"

namespace tenon {
namespace {

constexpr uint64_t kMagic = 0x3130544857464e54;  // "TNFWHT01"
// Pages of the image that are hashed as one task, and bytes of one write: a large page, so that the
// system may keep it as one.
constexpr size_t kChunk = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kHashDigits = 64;

// The last page of a file, as it stands there (little-endian).
struct Trailer {
  uint64_t magic = kMagic;
  uint64_t size = 0;          // bytes of the image
  uint64_t image_digest = 0;  // of its chunks' digests
  std::array<char, kHashDigits> identity = {};
  std::array<char, kHashDigits> layout = {};
  std::array<char, kPage - 4 * 8 - 2 * kHashDigits> origin = {};  // filled with zeros
  uint64_t digest = 0;                                            // of all before it
};
static_assert(sizeof(Trailer) == kPage);

uint64_t TrailerDigest(const Trailer& trailer) {
  return DigestBytes(
      std::as_bytes(std::span(&trailer, 1)).first(sizeof(Trailer) - sizeof(uint64_t)));
}

constexpr uint64_t PadToPage(uint64_t size) {
  return (size + kPage - 1) / kPage * kPage;
}

std::span<const std::byte> ChunkOf(std::span<const std::byte> image, size_t index) {
  const size_t begin = index * kChunk;
  return image.subspan(begin, std::min(kChunk, image.size() - begin));
}

size_t ChunkCount(std::span<const std::byte> image) {
  return (image.size() + kChunk - 1) / kChunk;
}

uint64_t JoinDigests(const std::vector<uint64_t>& digests) {
  return DigestBytes(std::as_bytes(std::span(digests)));
}

uint64_t ImageDigest(std::span<const std::byte> image, ThreadPool& pool) {
  std::vector<uint64_t> digests(ChunkCount(image));
  pool.ParallelFor(static_cast<int64_t>(digests.size()), 1,
                   [&](int64_t begin, int64_t end, int /*worker*/) {
                     for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                       digests[i] = DigestBytes(ChunkOf(image, i));
                   });
  return JoinDigests(digests);
}

template <size_t kSize>
void Fill(std::array<char, kSize>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), kSize), field.begin());
}

template <size_t kSize>
std::string TextOf(const std::array<char, kSize>& field) {
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

Result<Trailer> ReadTrailer(const MappedFile& file) {
  Trailer trailer;
  if (file.size() < sizeof(Trailer))
    return Corrupt("too short for packed weights", file.path().string());
  TENON_RETURN_IF_ERROR(
      file.ReadAt(file.size() - sizeof(Trailer), std::as_writable_bytes(std::span(&trailer, 1))));
  if (trailer.magic != kMagic || trailer.digest != TrailerDigest(trailer))
    return Corrupt("does not end like a file of packed weights", file.path().string());
  const uint64_t image_end = file.size() - sizeof(Trailer);
  if (trailer.size > image_end || PadToPage(trailer.size) != image_end) {
    return Corrupt(fmt::format("{} bytes of packed weights, {} expected", image_end, trailer.size),
                   file.path().string());
  }
  return trailer;
}

Status WriteChunks(FileWriter& file, std::span<const std::byte> image) {
  for (size_t i = 0; i < ChunkCount(image); ++i)
    TENON_RETURN_IF_ERROR(file.Write(ChunkOf(image, i)));
  const std::array<std::byte, kPage> zeros = {};
  return file.Write(std::span(zeros).first(PadToPage(image.size()) - image.size()));
}

}  // namespace

// Eight chains, because one multiplication waits three cycles for the one before. A step is a
// bijection of its lane, so that lanes that differ once stay different unless a later word differs.
uint64_t DigestBytes(std::span<const std::byte> bytes) {
  constexpr size_t kLanes = 8;
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio, odd
  std::array<uint64_t, kLanes> lanes;
  for (size_t i = 0; i < kLanes; ++i)
    lanes[i] = kFactor * (i + 1);
  size_t at = 0;
  for (; at + sizeof(lanes) <= bytes.size(); at += sizeof(lanes)) {
    std::array<uint64_t, kLanes> words;
    std::memcpy(words.data(), bytes.data() + at, sizeof(words));
    for (size_t i = 0; i < kLanes; ++i)
      lanes[i] = std::rotl((lanes[i] ^ words[i]) * kFactor, 29);
  }
  uint64_t digest = bytes.size();
  for (; at < bytes.size(); ++at)
    digest = std::rotl((digest ^ static_cast<uint64_t>(bytes[at])) * kFactor, 29);
  for (const uint64_t lane : lanes)
    digest = std::rotl((digest ^ lane) * kFactor, 29);
  return digest ^ digest >> 32;
}

Status WriteWeightImage(const std::filesystem::path& path, const WeightImageLabel& label,
                        std::span<const std::byte> image) {
  Trailer trailer;
  trailer.size = image.size();
  Fill(trailer.identity, label.identity);
  Fill(trailer.layout, label.layout);
  Fill(trailer.origin, label.origin);
  std::vector<uint64_t> digests(ChunkCount(image));
  for (size_t i = 0; i < digests.size(); ++i)
    digests[i] = DigestBytes(ChunkOf(image, i));
  trailer.image_digest = JoinDigests(digests);
  trailer.digest = TrailerDigest(trailer);
  TENON_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(path));
  TENON_RETURN_IF_ERROR(WriteChunks(file, image));
  return file.Write(std::as_bytes(std::span(&trailer, 1)));
}

Result<WeightImageLabel> ReadWeightImageLabel(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(const Trailer trailer, ReadTrailer(file));
  return WeightImageLabel{TextOf(trailer.identity), TextOf(trailer.layout), TextOf(trailer.origin),
                          trailer.size};
}

Result<WeightImage> OpenWeightImage(const std::filesystem::path& path,
                                    const WeightImageLabel& expected) {
  TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(const Trailer trailer, ReadTrailer(file));
  if (TextOf(trailer.identity) != expected.identity || TextOf(trailer.layout) != expected.layout ||
      trailer.size != expected.size)
    return Corrupt("packed weights of another model or layout", path.string());
  return WeightImage{std::move(file), 0};
}

Status CheckWeightImage(const WeightImage& image, ThreadPool& pool) {
  TENON_ASSIGN_OR_RETURN(const Trailer trailer, ReadTrailer(image.file));
  if (ImageDigest(image.file.bytes().first(trailer.size), pool) != trailer.image_digest)
    return Corrupt("the packed weights were changed after they were written",
                   image.file.path().string());
  return {};
}

}  // namespace tenon

#include "model/gguf/gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tenon {
namespace {

// Bytes of the shortest entry (key length, one character, type, one byte) and tensor record (name
// length, one character, dimension count, type, offset).
constexpr uint64_t kShortestEntry = 8 + 1 + 4 + 1;
constexpr uint64_t kShortestTensor = 8 + 1 + 4 + 4 + 8;

constexpr uint64_t kDefaultAlignment = 32;
// The format's own bound.
constexpr uint64_t kLongestKey = 65535;

struct Header {
  uint32_t version = 0;
  uint64_t tensors = 0;
  uint64_t entries = 0;
};

Status CheckMagic(ByteReader& reader) {
  const std::string where = reader.Where();
  TENON_ASSIGN_OR_RETURN(const auto found, reader.ReadBytes(kGgufMagic.size(), "header"));
  if (IsGguf(found))
    return {};
  std::string hex;
  for (const std::byte byte : found)
    hex += fmt::format(" {:02x}", std::to_integer<int>(byte));
  return Corrupt(fmt::format("not a GGUF file: it starts with the bytes{}, \"GGUF\" expected", hex),
                 where);
}

Status CheckVersion(uint32_t version, std::string where) {
  if (version == 2 || version == 3)
    return {};
  // A small number whose bytes are in the other order.
  if ((version & 0xFFFF) == 0 && version != 0)
    return Unsupported("a big-endian GGUF file: only little-endian files can be read", where);
  return Unsupported(fmt::format("GGUF version {}: versions 2 and 3 can be read", version), where);
}

struct CountLimit {
  std::string_view noun;
  uint64_t least_bytes;  // that one takes in the file
  uint64_t most;         // that this program reads
};

Status CheckCount(uint64_t count, const CountLimit& limit, const ByteReader& reader) {
  if (count > reader.remaining() / limit.least_bytes) {
    return Corrupt(fmt::format("truncated: the header promises {} {}, {} bytes are left", count,
                               limit.noun, reader.remaining()),
                   reader.Where());
  }
  if (count > limit.most) {
    return Unsupported(fmt::format("{} {}, at most {} can be read", count, limit.noun, limit.most),
                       reader.Where());
  }
  return {};
}

Result<Header> ReadHeader(ByteReader& reader) {
  TENON_RETURN_IF_ERROR(CheckMagic(reader));
  Header header;
  std::string where = reader.Where();
  TENON_ASSIGN_OR_RETURN(header.version, reader.Read<uint32_t>("header"));
  TENON_RETURN_IF_ERROR(CheckVersion(header.version, std::move(where)));
  TENON_ASSIGN_OR_RETURN(header.tensors, reader.Read<uint64_t>("header"));
  TENON_ASSIGN_OR_RETURN(header.entries, reader.Read<uint64_t>("header"));
  TENON_RETURN_IF_ERROR(
      CheckCount(header.entries, {"metadata entries", kShortestEntry, kGgufMaxEntries}, reader));
  TENON_RETURN_IF_ERROR(
      CheckCount(header.tensors, {"tensors", kShortestTensor, kGgufMaxTensors}, reader));
  return header;
}

// The least bytes that an element of an array takes.
uint64_t LeastElementBytes(GgufType type) {
  if (type == GgufType::kString)
    return 8;
  if (type == GgufType::kArray)
    return 12;
  return GgufScalarBytes(type);
}

Result<GgufValue> ReadValue(ByteReader& reader, GgufType type, std::string_view what, int depth);

// An element or value of unknown type has no length: nothing after it can be read.
Status CheckType(GgufType type, std::string_view what, const ByteReader& reader) {
  if (LeastElementBytes(type) > 0)
    return {};
  return Corrupt(fmt::format("{} has the unknown type {}", what, static_cast<uint32_t>(type)),
                 reader.Where());
}

Status CheckBools(std::span<const std::byte> bytes, std::string_view what,
                  const ByteReader& reader) {
  for (const std::byte byte : bytes) {
    if (byte > std::byte{1}) {
      return Corrupt(
          fmt::format("{} is a bool of {}, 0 or 1 expected", what, std::to_integer<int>(byte)),
          reader.Where());
    }
  }
  return {};
}

// Steps over an array's elements; their bytes are the difference of offsets.
Status WalkElements(ByteReader& reader, const GgufValue& array, std::string_view what, int depth) {
  if (const size_t size = GgufScalarBytes(array.element); size > 0) {
    TENON_ASSIGN_OR_RETURN(const auto bytes, reader.ReadBytes(array.count * size, what));
    return array.element == GgufType::kBool ? CheckBools(bytes, what, reader) : Status();
  }
  for (uint64_t i = 0; i < array.count; ++i)
    TENON_RETURN_IF_ERROR(ReadValue(reader, array.element, what, depth));
  return {};
}

Result<GgufValue> ReadArray(ByteReader& reader, std::string_view what, int depth) {
  if (depth >= kGgufMaxArrayDepth) {
    return Unsupported(fmt::format("{} nests arrays more than {} deep", what, kGgufMaxArrayDepth),
                       reader.Where());
  }
  GgufValue value;
  value.type = GgufType::kArray;
  TENON_ASSIGN_OR_RETURN(const auto element, reader.Read<uint32_t>(what));
  value.element = static_cast<GgufType>(element);
  TENON_RETURN_IF_ERROR(CheckType(value.element, what, reader));
  TENON_ASSIGN_OR_RETURN(value.count, reader.Read<uint64_t>(what));
  if (value.count > reader.remaining() / LeastElementBytes(value.element)) {
    return Corrupt(fmt::format("truncated {}: an array of {} {}, {} bytes are left", what,
                               value.count, GgufTypeName(value.element), reader.remaining()),
                   reader.Where());
  }
  ByteReader start = reader;
  TENON_RETURN_IF_ERROR(WalkElements(reader, value, what, depth + 1));
  TENON_ASSIGN_OR_RETURN(value.bytes, start.ReadBytes(reader.offset() - start.offset(), what));
  return value;
}

Result<GgufValue> ReadValue(ByteReader& reader, GgufType type, std::string_view what, int depth) {
  TENON_RETURN_IF_ERROR(CheckType(type, what, reader));
  if (type == GgufType::kArray)
    return ReadArray(reader, what, depth);
  GgufValue value;
  value.type = type;
  uint64_t size = GgufScalarBytes(type);
  if (type == GgufType::kString) {
    TENON_ASSIGN_OR_RETURN(size, reader.Read<uint64_t>(what));
  }
  TENON_ASSIGN_OR_RETURN(value.bytes, reader.ReadBytes(size, what));
  if (type == GgufType::kBool)
    TENON_RETURN_IF_ERROR(CheckBools(value.bytes, what, reader));
  return value;
}

Result<std::string_view> ReadKey(ByteReader& reader) {
  const std::string where = reader.Where();
  TENON_ASSIGN_OR_RETURN(const auto key, ReadGgufString(reader, "metadata key"));
  if (key.empty() || key.size() > kLongestKey) {
    return Corrupt(
        fmt::format("a metadata key of {} bytes, 1 to {} expected", key.size(), kLongestKey),
        where);
  }
  if (HasControlCharacters(key))
    return Corrupt("a metadata key has control characters", where);
  return key;
}

Result<GgufMetadata> ReadMetadata(ByteReader& reader, uint64_t count, const std::string& name) {
  GgufMetadata metadata(name);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string where = reader.Where();
    TENON_ASSIGN_OR_RETURN(const auto key, ReadKey(reader));
    const std::string what = fmt::format("value of '{}'", key);
    TENON_ASSIGN_OR_RETURN(const auto type, reader.Read<uint32_t>(what));
    TENON_ASSIGN_OR_RETURN(const auto value,
                           ReadValue(reader, static_cast<GgufType>(type), what, 0));
    if (!metadata.Add(key, value))
      return Corrupt(fmt::format("the metadata key '{}' occurs twice", key), where);
  }
  return metadata;
}

Result<uint64_t> ReadAlignment(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "general.alignment";
  const GgufValue* value = metadata.Find(kKey);
  if (value == nullptr)
    return kDefaultAlignment;
  if (value->type != GgufType::kUint32) {
    return metadata.ErrorAt(kKey, fmt::format("{} found, u32 expected", GgufTypeName(value->type)));
  }
  const auto alignment = static_cast<uint64_t>(*AsInteger(*value));
  if (!std::has_single_bit(alignment))
    return metadata.ErrorAt(kKey, fmt::format("{} found, a power of two expected", alignment));
  return alignment;
}

}  // namespace

bool IsGguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kGgufMagic.size() &&
         std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
}

bool HasControlCharacters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

Result<std::string_view> ReadGgufString(ByteReader& reader, std::string_view what) {
  TENON_ASSIGN_OR_RETURN(const auto length, reader.Read<uint64_t>(what));
  TENON_ASSIGN_OR_RETURN(const auto bytes, reader.ReadBytes(length, what));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<GgufFile> ParseGguf(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  TENON_ASSIGN_OR_RETURN(const Header header, ReadHeader(reader));
  TENON_ASSIGN_OR_RETURN(auto metadata, ReadMetadata(reader, header.entries, name));
  TENON_ASSIGN_OR_RETURN(const uint64_t alignment, ReadAlignment(metadata));
  TENON_ASSIGN_OR_RETURN(auto tensors, ReadGgufTensors(reader, {header.tensors, alignment}, bytes));
  return GgufFile{header.version, std::move(metadata), std::move(tensors)};
}

}  // namespace tenon

// ReadGgufTensors (gguf_reader.h).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "model/gguf/ggml_type.h"
#include "model/gguf/gguf_reader.h"

namespace tenon {
namespace {

// GGML's bound on dimensions.
constexpr uint32_t kMostDimensions = 4;
// The format's bound is 64 bytes; some converters write longer names.
constexpr size_t kLongestName = 1024;

struct DirectoryEntry {
  TensorInfo info;        // offset still relative to the data section
  std::string_view name;  // as in the file
  std::string where;      // of the record
};

Result<std::string_view> ReadName(ByteReader& reader) {
  const std::string where = reader.Where();
  TENON_ASSIGN_OR_RETURN(const auto name, ReadGgufString(reader, "tensor name"));
  if (name.empty() || name.size() > kLongestName) {
    return Corrupt(
        fmt::format("a tensor name of {} bytes, 1 to {} expected", name.size(), kLongestName),
        where);
  }
  if (HasControlCharacters(name))
    return Corrupt("a tensor name has control characters", where);
  return name;
}

// Outermost first; the file has the innermost dimension first.
Result<std::vector<int64_t>> ReadShape(ByteReader& reader, std::string_view name) {
  const std::string where = reader.Where();
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Read<uint32_t>("tensor dimensions"));
  if (count > kMostDimensions) {
    return Corrupt(fmt::format("tensor '{}' has {} dimensions, at most {} expected", name, count,
                               kMostDimensions),
                   where);
  }
  std::vector<int64_t> shape(count);
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const auto extent, reader.Read<uint64_t>("tensor dimensions"));
    if (extent == 0 || extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Corrupt(
          fmt::format("dimension {} of tensor '{}' is {}, 1 to 2^63-1 expected", i, name, extent),
          where);
    }
    shape[count - 1 - i] = static_cast<int64_t>(extent);
  }
  return shape;
}

Result<DType> ReadType(ByteReader& reader, std::string_view name) {
  const std::string where = reader.Where();
  TENON_ASSIGN_OR_RETURN(const auto number, reader.Read<uint32_t>("tensor type"));
  const GgmlType* type = FindGgmlType(number);
  if (type == nullptr)
    return Corrupt(fmt::format("tensor '{}' has the unknown type {}", name, number), where);
  if (!type->dtype) {
    return Unsupported(
        fmt::format("tensor '{}' has type {} ({}), which can't be read", name, type->name, number),
        where);
  }
  return *type->dtype;
}

// Bytes of all values. Fails when rows don't hold whole blocks or a product overflows.
Result<uint64_t> TensorBytes(const DirectoryEntry& entry) {
  const TensorInfo& info = entry.info;
  const DTypeInfo& dtype = GetDTypeInfo(info.dtype);
  if (info.columns() % dtype.block_elements != 0) {
    return Corrupt(
        fmt::format("tensor '{}' has rows of {} values, a multiple of {} expected for {}",
                    entry.name, info.columns(), dtype.block_elements, dtype.name),
        entry.where);
  }
  int64_t bytes = info.columns() / dtype.block_elements;
  bool overflow = __builtin_mul_overflow(bytes, int64_t{dtype.block_bytes}, &bytes);
  for (size_t i = 0; i + 1 < info.shape.size(); ++i)
    overflow = __builtin_mul_overflow(bytes, info.shape[i], &bytes) || overflow;
  // The number of values has to fit too: a row of blocks takes fewer bytes than it has values.
  int64_t values = 1;
  for (const int64_t extent : info.shape)
    overflow = __builtin_mul_overflow(values, extent, &values) || overflow;
  if (overflow) {
    return Corrupt(fmt::format("the dimensions [{}] of tensor '{}' overflow 63 bits",
                               fmt::join(info.shape, ", "), entry.name),
                   entry.where);
  }
  return static_cast<uint64_t>(bytes);
}

Result<DirectoryEntry> ReadEntry(ByteReader& reader, uint64_t alignment) {
  DirectoryEntry entry;
  entry.where = reader.Where();
  TENON_ASSIGN_OR_RETURN(entry.name, ReadName(reader));
  entry.info.name = entry.name;
  TENON_ASSIGN_OR_RETURN(entry.info.shape, ReadShape(reader, entry.name));
  TENON_ASSIGN_OR_RETURN(entry.info.dtype, ReadType(reader, entry.name));
  TENON_ASSIGN_OR_RETURN(entry.info.offset, reader.Read<uint64_t>("tensor offset"));
  TENON_ASSIGN_OR_RETURN(entry.info.bytes, TensorBytes(entry));
  if (entry.info.offset % alignment != 0) {
    return Corrupt(fmt::format("tensor '{}' has the data offset {}, a multiple of {} expected",
                               entry.name, entry.info.offset, alignment),
                   entry.where);
  }
  return entry;
}

// Makes the offset relative to the file, which has `file_bytes` bytes.
Status PlaceTensor(DirectoryEntry& entry, uint64_t data_start, uint64_t file_bytes) {
  TensorInfo& info = entry.info;
  const uint64_t data_bytes = file_bytes > data_start ? file_bytes - data_start : 0;
  if (info.offset > data_bytes || info.bytes > data_bytes - info.offset) {
    return Corrupt(fmt::format("tensor '{}' has {} bytes at offset {} of the data section, which "
                               "has {} bytes: the file is truncated or the directory is wrong",
                               entry.name, info.bytes, info.offset, data_bytes),
                   entry.where);
  }
  info.offset += data_start;
  return {};
}

Status CheckOverlap(const std::vector<DirectoryEntry>& entries) {
  std::vector<const DirectoryEntry*> sorted;
  sorted.reserve(entries.size());
  for (const DirectoryEntry& entry : entries)
    sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const DirectoryEntry* a, const DirectoryEntry* b) {
    return a->info.offset < b->info.offset;
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const TensorInfo& before = sorted[i - 1]->info;
    if (sorted[i]->info.offset < before.offset + before.bytes) {
      return Corrupt(
          fmt::format("tensors '{}' and '{}' overlap", before.name, sorted[i]->info.name),
          sorted[i]->where);
    }
  }
  return {};
}

// Shards of a split model that were joined with `cat`: after the last tensor, at once or after its
// padding, comes another header. Whatever else follows the data is none of our business.
Status CheckTail(const std::vector<DirectoryEntry>& entries, uint64_t alignment,
                 std::span<const std::byte> file, const ByteReader& reader) {
  uint64_t end = reader.offset();
  for (const DirectoryEntry& entry : entries)
    end = std::max(end, entry.info.offset + entry.info.bytes);
  const uint64_t padded = (end + alignment - 1) / alignment * alignment;
  for (const uint64_t offset : {end, padded}) {
    if (offset < file.size() && IsGguf(file.subspan(offset))) {
      return Corrupt(
          "a second GGUF file begins here: shards of a split model were joined; keep "
          "them as separate files",
          reader.WhereAt(offset));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<TensorInfo>> ReadGgufTensors(ByteReader& reader, const GgufDirectory& directory,
                                                std::span<const std::byte> file) {
  std::vector<DirectoryEntry> entries;
  std::unordered_set<std::string_view> names;
  for (uint64_t i = 0; i < directory.count; ++i) {
    TENON_ASSIGN_OR_RETURN(auto entry, ReadEntry(reader, directory.alignment));
    if (!names.insert(entry.name).second)
      return Corrupt(fmt::format("the tensor name '{}' occurs twice", entry.name), entry.where);
    entries.push_back(std::move(entry));
  }
  const uint64_t alignment = directory.alignment;
  const uint64_t data_start = (reader.offset() + alignment - 1) / alignment * alignment;
  for (DirectoryEntry& entry : entries)
    TENON_RETURN_IF_ERROR(PlaceTensor(entry, data_start, file.size()));
  TENON_RETURN_IF_ERROR(CheckOverlap(entries));
  TENON_RETURN_IF_ERROR(CheckTail(entries, alignment, file, reader));
  std::vector<TensorInfo> tensors;
  tensors.reserve(entries.size());
  for (DirectoryEntry& entry : entries)
    tensors.push_back(std::move(entry.info));
  return tensors;
}

}  // namespace tenon

#include "model/safetensors/safetensors_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "base/byte_reader.h"
#include "model/json/json_document.h"

namespace tenon {
namespace {

constexpr std::array<SafetensorsTypeInfo, 17> kTypes = {{
    {SafetensorsType::kBool, "BOOL", 1},
    {SafetensorsType::kU8, "U8", 1},
    {SafetensorsType::kI8, "I8", 1},
    {SafetensorsType::kF8E4M3, "F8_E4M3", 1},
    {SafetensorsType::kF8E5M2, "F8_E5M2", 1},
    {SafetensorsType::kF8E8M0, "F8_E8M0", 1},
    {SafetensorsType::kI16, "I16", 2},
    {SafetensorsType::kU16, "U16", 2},
    {SafetensorsType::kF16, "F16", 2},
    {SafetensorsType::kBF16, "BF16", 2},
    {SafetensorsType::kI32, "I32", 4},
    {SafetensorsType::kU32, "U32", 4},
    {SafetensorsType::kF32, "F32", 4},
    {SafetensorsType::kF64, "F64", 8},
    {SafetensorsType::kI64, "I64", 8},
    {SafetensorsType::kU64, "U64", 8},
    {SafetensorsType::kC64, "C64", 8},
}};

// Weights of models have up to four; more would only be a burden on messages.
constexpr size_t kMostDimensions = 8;
constexpr size_t kLongestName = 1024;
constexpr std::string_view kMetadata = "__metadata__";

bool HasControlCharacters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

Result<const SafetensorsTypeInfo*> ReadType(const JsonValue& entry) {
  TENON_ASSIGN_OR_RETURN(const JsonValue field, entry.At("dtype"));
  TENON_ASSIGN_OR_RETURN(const std::string_view name, field.String());
  for (const SafetensorsTypeInfo& info : kTypes) {
    if (info.name == name)
      return &info;
  }
  return field.NotSupported(fmt::format("the dtype '{}' is not known", name));
}

// Values of all dimensions together; the product of sizes is checked for overflow.
Result<uint64_t> ReadShape(const JsonValue& entry, std::vector<int64_t>& shape) {
  TENON_ASSIGN_OR_RETURN(const JsonValue field, entry.At("shape"));
  TENON_ASSIGN_OR_RETURN(const auto extents, field.Array());
  if (extents.size() > kMostDimensions) {
    return field.Wrong(
        fmt::format("{} dimensions, at most {} expected", extents.size(), kMostDimensions));
  }
  uint64_t count = 1;
  for (const simdjson::dom::element item : extents) {
    TENON_ASSIGN_OR_RETURN(const int64_t extent, field.Item(shape.size(), item).Integer());
    uint64_t product = 0;
    if (extent < 0 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(std::max<int64_t>(extent, 1)),
                               &product) ||
        product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return field.Wrong(fmt::format("dimension {} of {} is out of range", shape.size(), extent));
    count = product;
    shape.push_back(extent);
  }
  return std::count(shape.begin(), shape.end(), 0) > 0 ? 0 : count;
}

// Reads data_offsets [begin, end) into `tensor`, still relative to the data of `data_bytes` bytes.
Status ReadPlace(const JsonValue& entry, uint64_t data_bytes, SafetensorsTensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const JsonValue field, entry.At("data_offsets"));
  TENON_ASSIGN_OR_RETURN(const auto offsets, field.Array());
  std::array<uint64_t, 2> place{};
  size_t count = 0;
  for (const simdjson::dom::element item : offsets) {
    uint64_t offset = 0;
    if (count == 2 || item.get_uint64().get(offset) != simdjson::SUCCESS)
      return field.Wrong("two offsets from 0 to 2^64-1 expected");
    place[count++] = offset;
  }
  if (count != 2 || place[0] > place[1])
    return field.Wrong("two ascending offsets expected");
  if (place[1] > data_bytes) {
    return field.Wrong(
        fmt::format("the tensor ends at byte {} of the data, which has {} bytes: "
                    "the file is truncated or the header is wrong",
                    place[1], data_bytes));
  }
  tensor.offset = place[0];
  tensor.bytes = place[1] - place[0];
  return {};
}

Result<SafetensorsTensor> ReadTensor(const JsonValue& entry, std::string_view name,
                                     uint64_t data_bytes) {
  if (name.empty() || name.size() > kLongestName || HasControlCharacters(name)) {
    return entry.Wrong(fmt::format(
        "a tensor name of {} bytes or with control characters; 1 to {} printable ones expected",
        name.size(), kLongestName));
  }
  SafetensorsTensor tensor;
  tensor.name = name;
  TENON_ASSIGN_OR_RETURN(const SafetensorsTypeInfo* info, ReadType(entry));
  tensor.type = info->type;
  TENON_ASSIGN_OR_RETURN(const uint64_t count, ReadShape(entry, tensor.shape));
  TENON_RETURN_IF_ERROR(ReadPlace(entry, data_bytes, tensor));
  uint64_t needed = 0;
  if (__builtin_mul_overflow(count, info->bytes, &needed) || needed != tensor.bytes) {
    return entry.Wrong(fmt::format("data_offsets span {} bytes, but {} values of {} need {}",
                                   tensor.bytes, count, info->name, needed));
  }
  return tensor;
}

Status ReadMetadata(const JsonValue& entry, SafetensorsFile& file) {
  TENON_ASSIGN_OR_RETURN(const auto object, entry.Object());
  for (const auto& [key, value] : object) {
    TENON_ASSIGN_OR_RETURN(const std::string_view text, entry.Member(key, value).String());
    file.metadata.emplace_back(key, text);
  }
  return {};
}

// Sorts by place; the tensors must follow each other from the first byte of the data to its last.
Status CheckCoverage(std::vector<SafetensorsTensor>& tensors, uint64_t data_bytes,
                     const std::string& name) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                     return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
                   });
  uint64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.offset != end) {
      return Corrupt(fmt::format("the tensor '{}' starts at byte {} of the data, byte {} expected: "
                                 "tensors {}",
                                 tensor.name, tensor.offset, end,
                                 tensor.offset < end ? "overlap" : "leave a hole"),
                     name);
    }
    end += tensor.bytes;
  }
  if (end == data_bytes)
    return {};
  return Corrupt(
      fmt::format("the tensors end at byte {} of the data, which has {} bytes", end, data_bytes),
      name);
}

Result<std::string_view> ReadHeader(ByteReader& reader) {
  TENON_ASSIGN_OR_RETURN(const auto length, reader.Read<uint64_t>("safetensors header length"));
  if (length > kSafetensorsMaxHeader) {
    return Corrupt(fmt::format("a header of {} bytes, at most {} expected: this is no safetensors "
                               "file",
                               length, kSafetensorsMaxHeader),
                   reader.WhereAt(0));
  }
  TENON_ASSIGN_OR_RETURN(const auto raw, reader.ReadBytes(length, "safetensors header"));
  const std::string_view text(reinterpret_cast<const char*>(raw.data()), raw.size());
  if (!text.starts_with('{'))
    return Corrupt("the header does not start with '{'", reader.WhereAt(sizeof(uint64_t)));
  return text;
}

}  // namespace

const SafetensorsTypeInfo& GetSafetensorsTypeInfo(SafetensorsType type) {
  return kTypes[static_cast<size_t>(type)];
}

Result<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes,
                                         const std::string& name) {
  ByteReader reader(bytes, name);
  TENON_ASSIGN_OR_RETURN(const std::string_view header, ReadHeader(reader));
  TENON_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(header, name));
  TENON_ASSIGN_OR_RETURN(const auto entries, document.root().Object());
  const uint64_t data_start = reader.offset();
  const uint64_t data_bytes = reader.remaining();
  SafetensorsFile file;
  std::unordered_set<std::string_view> names;
  for (const auto& [key, value] : entries) {
    const JsonValue entry = document.root().Member(key, value);
    if (!names.insert(key).second)
      return entry.Wrong("the name occurs twice");
    if (key == kMetadata) {
      TENON_RETURN_IF_ERROR(ReadMetadata(entry, file));
      continue;
    }
    TENON_ASSIGN_OR_RETURN(SafetensorsTensor tensor, ReadTensor(entry, key, data_bytes));
    file.tensors.push_back(std::move(tensor));
  }
  TENON_RETURN_IF_ERROR(CheckCoverage(file.tensors, data_bytes, name));
  for (SafetensorsTensor& tensor : file.tensors)
    tensor.offset += data_start;
  return file;
}

}  // namespace tenon

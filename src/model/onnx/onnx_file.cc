#include "model/onnx/onnx_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace tenon {
namespace {

// More elements than any tensor of a model has, and few enough that bytes fit 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 40;

// Bytes of `count` elements; types below a byte are packed.
uint64_t PackedBytes(ElementType type, int64_t count) {
  return (static_cast<uint64_t>(count) * static_cast<uint64_t>(ElementBits(type)) + 7) / 8;
}

// The low `size` bytes of each value.
template <class T>
std::vector<std::byte> Narrow(const std::vector<T>& values, size_t size) {
  std::vector<std::byte> out(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(out.data() + i * size, &values[i], size);
  return out;
}

// A decimal number of an external_data entry.
Result<uint64_t> ReadNumber(std::string_view text, std::string_view key) {
  uint64_t value = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || rest != text.data() + text.size())
    return Corrupt(fmt::format("external data: {} '{}', a number expected", key, text));
  return value;
}

}  // namespace

Result<int64_t> CountElements(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0)
      return Corrupt(fmt::format("an extent of {}", extent));
    if (extent > 0 && count > kMostElements / extent)
      return Corrupt("more than 2^40 elements");
    count *= extent;
  }
  return count;
}

Error OnnxFile::Wrong(const OnnxTensor& tensor, std::string_view message) const {
  return Corrupt(fmt::format("the tensor '{}': {}", tensor.name, message), name_);
}

Result<OnnxFile> OnnxFile::Open(const std::filesystem::path& path) {
  OnnxFile file;
  file.name_ = path.string();
  file.directory_ = path.parent_path();
  file.may_open_ = true;
  TENON_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  file.files_.push_back(std::move(mapped));
  TENON_ASSIGN_OR_RETURN(file.model_, ParseOnnx(file.files_[0].bytes(), file.name_));
  return file;
}

Result<OnnxFile> OnnxFile::Parse(std::span<const std::byte> bytes, const std::string& name) {
  OnnxFile file;
  file.name_ = name;
  TENON_ASSIGN_OR_RETURN(file.model_, ParseOnnx(bytes, name));
  return file;
}

Result<OnnxTensorData> OnnxFile::ExternalData(const OnnxTensor& tensor, OnnxTensorData data,
                                              uint64_t size) {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = size;
  for (const auto& [key, value] : tensor.external_data) {
    if (key == "location")
      location = value;
    if (key == "offset") {
      TENON_ASSIGN_OR_RETURN(offset, ReadNumber(value, key));
    } else if (key == "length") {
      TENON_ASSIGN_OR_RETURN(length, ReadNumber(value, key));
    }
  }
  if (!may_open_)
    return Wrong(tensor, "external data of a model that is not a file");
  if (length != size)
    return Wrong(tensor, fmt::format("{} external bytes, {} expected", length, size));
  auto found = external_.find(location);
  if (found == external_.end()) {
    TENON_ASSIGN_OR_RETURN(const auto path, ResolveExternalFile(directory_, location));
    TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    files_.push_back(std::move(file));
    found = external_.emplace(location, static_cast<uint32_t>(files_.size() - 1)).first;
  }
  const MappedFile& file = files_[found->second];
  if (offset > file.size() || size > file.size() - offset) {
    return Wrong(tensor, fmt::format("bytes {} to {} of {}, which has {}", offset, offset + size,
                                     location, file.size()));
  }
  data.file = found->second;
  data.offset = offset;
  data.bytes = file.bytes().subspan(offset, size);
  return data;
}

Result<std::span<const std::byte>> OnnxFile::ListData(const OnnxTensor& tensor, ElementType type,
                                                      int64_t count) {
  std::vector<std::byte> bytes;
  const auto size = static_cast<size_t>(ElementBytes(type));
  size_t found = 0;
  if (type == ElementType::kF32) {
    found = tensor.floats.size();
    bytes = Narrow(tensor.floats, size);
  } else if (type == ElementType::kF64) {
    found = tensor.doubles.size();
    bytes = Narrow(tensor.doubles, size);
  } else if (type == ElementType::kI64) {
    found = tensor.int64s.size();
    bytes = Narrow(tensor.int64s, size);
  } else if (type == ElementType::kU32 || type == ElementType::kU64) {
    found = tensor.uint64s.size();
    bytes = Narrow(tensor.uint64s, size);
  } else {
    found = tensor.int32s.size();
    bytes = Narrow(tensor.int32s, size);
  }
  // Types below a byte hold a packed byte in each entry.
  const auto expected =
      ElementBits(type) < 8 ? PackedBytes(type, count) : static_cast<uint64_t>(count);
  if (found != expected)
    return Wrong(tensor, fmt::format("{} values, {} expected", found, expected));
  owned_.push_back(std::move(bytes));
  return std::span<const std::byte>(owned_.back());
}

Result<OnnxTensorData> OnnxFile::Data(const OnnxTensor& tensor) {
  OnnxTensorData data;
  if (tensor.data_type < 1 || tensor.data_type >= kElementTypeCount)
    return Wrong(tensor, fmt::format("element type {}", tensor.data_type));
  data.type = static_cast<ElementType>(tensor.data_type);
  if (ElementBits(data.type) == 0) {
    return Unsupported(fmt::format("the tensor '{}' has elements of type {}", tensor.name,
                                   ElementTypeName(data.type)),
                       name_);
  }
  data.shape = tensor.dims;
  const auto counted = CountElements(tensor.dims);
  if (!counted.ok())
    return Wrong(tensor, counted.error().message);
  const uint64_t size = PackedBytes(data.type, *counted);
  if (tensor.external)
    return ExternalData(tensor, std::move(data), size);
  if (!tensor.raw) {
    TENON_ASSIGN_OR_RETURN(data.bytes, ListData(tensor, data.type, *counted));
    return data;
  }
  data.bytes = *tensor.raw;
  if (data.bytes.size() != size)
    return Wrong(tensor, fmt::format("{} bytes, {} expected", data.bytes.size(), size));
  if (!files_.empty()) {
    data.file = 0;
    data.offset = static_cast<uint64_t>(data.bytes.data() - files_[0].bytes().data());
  }
  return data;
}

}  // namespace tenon

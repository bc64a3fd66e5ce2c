#include "model/gguf/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "model/gguf/ggml_type.h"
#include "model/gguf/gguf_reader.h"

namespace tenon {
namespace {

constexpr uint32_t kVersion = 3;

template <class T>
void Append(std::string& out, T value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  out.append(bytes.data(), bytes.size());
}

void AppendString(std::string& out, std::string_view text) {
  Append(out, static_cast<uint64_t>(text.size()));
  out.append(text);
}

void AppendType(std::string& out, GgufType type) {
  Append(out, static_cast<uint32_t>(type));
}

uint64_t Padded(uint64_t size) {
  return (size + GgufWriter::kAlignment - 1) / GgufWriter::kAlignment * GgufWriter::kAlignment;
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Result<std::string> DirectoryBytes(const std::vector<GgufTensorPlan>& tensors) {
  std::string out;
  uint64_t offset = 0;
  for (const GgufTensorPlan& tensor : tensors) {
    const auto number = GgmlTypeNumber(tensor.dtype);
    if (!number)
      return Unsupported(fmt::format("GGUF holds no {} tensors", DTypeName(tensor.dtype)),
                         tensor.name);
    AppendString(out, tensor.name);
    Append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
      Append(out, static_cast<uint64_t>(*extent));
    Append(out, *number);
    Append(out, offset);
    offset += Padded(static_cast<uint64_t>(tensor.bytes()));
  }
  return out;
}

template <class Number>
std::string NumberBytes(GgufType type, Number value) {
  std::string bytes;
  AppendType(bytes, type);
  Append(bytes, value);
  return bytes;
}

}  // namespace

void GgufMetadataBuilder::Set(std::string_view key, std::string value) {
  for (Entry& entry : entries_) {
    if (entry.key == key) {
      entry.value = std::move(value);
      return;
    }
  }
  entries_.push_back({std::string(key), std::move(value)});
}

void GgufMetadataBuilder::SetString(std::string_view key, std::string_view value) {
  std::string bytes;
  AppendType(bytes, GgufType::kString);
  AppendString(bytes, value);
  Set(key, std::move(bytes));
}

void GgufMetadataBuilder::SetUint32(std::string_view key, uint32_t value) {
  Set(key, NumberBytes(GgufType::kUint32, value));
}

void GgufMetadataBuilder::SetUint16(std::string_view key, uint16_t value) {
  Set(key, NumberBytes(GgufType::kUint16, value));
}

void GgufMetadataBuilder::SetInt32(std::string_view key, int32_t value) {
  Set(key, NumberBytes(GgufType::kInt32, value));
}

void GgufMetadataBuilder::SetFloat32(std::string_view key, float value) {
  Set(key, NumberBytes(GgufType::kFloat32, value));
}

void GgufMetadataBuilder::SetStrings(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes;
  AppendType(bytes, GgufType::kArray);
  AppendType(bytes, GgufType::kString);
  Append(bytes, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values)
    AppendString(bytes, value);
  Set(key, std::move(bytes));
}

void GgufMetadataBuilder::SetCopy(const GgufEntry& entry) {
  std::string bytes;
  AppendType(bytes, entry.value.type);
  if (entry.value.type == GgufType::kString)
    Append(bytes, static_cast<uint64_t>(entry.value.bytes.size()));
  if (entry.value.type == GgufType::kArray) {
    AppendType(bytes, entry.value.element);
    Append(bytes, entry.value.count);
  }
  bytes.append(entry.value.text());
  Set(entry.key, std::move(bytes));
}

void GgufMetadataBuilder::Remove(std::string_view key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

std::string GgufMetadataBuilder::Bytes() const {
  std::string out;
  for (const Entry& entry : entries_) {
    AppendString(out, entry.key);
    out.append(entry.value);
  }
  return out;
}

int64_t GgufTensorPlan::bytes() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    rows *= shape[i];
  return rows * DTypeRowBytes(dtype, shape.empty() ? 1 : shape.back());
}

Result<GgufWriter> GgufWriter::Create(const std::filesystem::path& path,
                                      const GgufMetadataBuilder& metadata,
                                      std::vector<GgufTensorPlan> tensors) {
  TENON_ASSIGN_OR_RETURN(const std::string directory, DirectoryBytes(tensors));
  std::filesystem::path partial = path;
  partial += ".partial";
  TENON_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(partial));
  TENON_RETURN_IF_ERROR(file.Truncate(0));
  GgufWriter writer(std::move(file), path, std::move(partial));
  writer.tensors_ = std::move(tensors);
  std::string head(kGgufMagic);
  Append(head, kVersion);
  Append(head, static_cast<uint64_t>(writer.tensors_.size()));
  Append(head, metadata.count());
  TENON_RETURN_IF_ERROR(writer.file_.Write(AsBytes(head)));
  TENON_RETURN_IF_ERROR(writer.file_.Write(AsBytes(metadata.Bytes())));
  TENON_RETURN_IF_ERROR(writer.file_.Write(AsBytes(directory)));
  TENON_RETURN_IF_ERROR(writer.Pad());
  return writer;
}

Status GgufWriter::Pad() {
  const std::string zeros(Padded(file_.size()) - file_.size(), '\0');
  return file_.Write(AsBytes(zeros));
}

Status GgufWriter::WriteTensor(std::span<const std::byte> bytes) {
  TENON_CHECK(written_ < tensors_.size());
  TENON_CHECK(static_cast<int64_t>(bytes.size()) == tensors_[written_].bytes());
  return WritePart(bytes);
}

Status GgufWriter::WritePart(std::span<const std::byte> bytes) {
  TENON_CHECK(written_ < tensors_.size());
  part_bytes_ += static_cast<int64_t>(bytes.size());
  TENON_CHECK(part_bytes_ <= tensors_[written_].bytes());
  TENON_RETURN_IF_ERROR(file_.Write(bytes));
  if (part_bytes_ < tensors_[written_].bytes())
    return {};
  ++written_;
  part_bytes_ = 0;
  return Pad();
}

Status GgufWriter::Close() {
  TENON_CHECK(written_ == tensors_.size());
  TENON_RETURN_IF_ERROR(file_.Sync());
  return RenameDurably(partial_, path_);
}

}  // namespace tenon

#include "model/safetensors/safetensors_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace tenon {
namespace {

// Where the values begin, as the format's own library pads: the widest type is aligned.
constexpr size_t kAlignment = 8;

std::string Header(const std::vector<SafetensorsPlan>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"]["format"] = "pt";  // transformers refuses files without it
  uint64_t offset = 0;
  for (const SafetensorsPlan& tensor : tensors) {
    nlohmann::ordered_json& entry = header[tensor.name];
    entry["dtype"] = SafetensorsTypeName(tensor.type);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + tensor.bytes()};
    offset += tensor.bytes();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

uint64_t SafetensorsPlan::bytes() const {
  uint64_t count = GetSafetensorsTypeInfo(type).bytes;
  for (const int64_t extent : shape)
    count *= static_cast<uint64_t>(extent);
  return count;
}

Result<SafetensorsWriter> SafetensorsWriter::Create(const std::filesystem::path& path,
                                                    const std::vector<SafetensorsPlan>& tensors) {
  const std::string header = Header(tensors);
  if (header.size() > kSafetensorsMaxHeader)
    return Unsupported(fmt::format("a header of {} bytes; the format allows {}", header.size(),
                                   kSafetensorsMaxHeader),
                       path.string());
  std::filesystem::path partial = path;
  partial += ".partial";
  TENON_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(partial));
  TENON_RETURN_IF_ERROR(file.Truncate(0));
  SafetensorsWriter writer(std::move(file), path, std::move(partial));
  for (const SafetensorsPlan& tensor : tensors)
    writer.left_ += tensor.bytes();
  std::string length(sizeof(uint64_t), '\0');
  const uint64_t size = header.size();
  std::memcpy(length.data(), &size, sizeof(size));
  TENON_RETURN_IF_ERROR(writer.file_.Write(AsBytes(length)));
  TENON_RETURN_IF_ERROR(writer.file_.Write(AsBytes(header)));
  return writer;
}

Status SafetensorsWriter::Write(std::span<const std::byte> bytes) {
  TENON_CHECK(bytes.size() <= left_);
  left_ -= bytes.size();
  return file_.Write(bytes);
}

Status SafetensorsWriter::Close() {
  if (left_ > 0)
    return MakeError(ErrorCode::kInternal, fmt::format("{} bytes were not written", left_),
                     path_.string());
  TENON_RETURN_IF_ERROR(file_.Sync());
  return RenameDurably(partial_, path_);
}

}  // namespace tenon

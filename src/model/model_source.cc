#include "model/model_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "model/gguf/gguf_model.h"
#include "model/hf/hf_model.h"
#include "model/onnx/export_model.h"
#include "model/onnx/genai_model.h"

namespace tenon {

namespace {

// Where the byte `offset` of a tensor is, and how many follow it there.
struct Place {
  TensorPiece piece;
  uint64_t left = 0;
};

Place PlaceOf(const TensorInfo& tensor, uint64_t offset) {
  if (tensor.pieces.empty())
    return {{tensor.storage, tensor.file, tensor.offset + offset}, tensor.bytes - offset};
  const uint64_t size = tensor.bytes / tensor.pieces.size();
  // The end of the tensor is the end of its last piece.
  const uint64_t index = std::min<uint64_t>(offset / size, tensor.pieces.size() - 1);
  TensorPiece piece = tensor.pieces[index];
  piece.offset += offset - index * size;
  return {piece, size - (offset - index * size)};
}

}  // namespace

std::span<const std::byte> ModelSource::BytesAt(const TensorInfo& tensor, uint64_t offset,
                                                uint64_t count) const {
  const Place place = PlaceOf(tensor, offset);
  const std::span<const std::byte> all = place.piece.storage == TensorStorage::kFile
                                             ? files[place.piece.file].bytes()
                                             : buffers[place.piece.file].bytes();
  return all.subspan(place.piece.offset, count);
}

Status ModelSource::ReadAt(const TensorInfo& tensor, uint64_t offset,
                           std::span<std::byte> out) const {
  while (!out.empty()) {
    const Place place = PlaceOf(tensor, offset);
    const uint64_t count = std::min<uint64_t>(out.size(), place.left);
    if (place.piece.storage == TensorStorage::kFile)
      TENON_RETURN_IF_ERROR(files[place.piece.file].ReadAt(place.piece.offset, out.first(count)));
    else
      std::memcpy(out.data(), BytesAt(tensor, offset, count).data(), count);
    out = out.subspan(count);
    offset += count;
  }
  return {};
}

void ModelSource::Release(const TensorInfo& tensor, uint64_t offset, uint64_t count) const {
  while (count > 0) {
    const Place place = PlaceOf(tensor, offset);
    const uint64_t here = std::min(count, place.left);
    if (here == 0)
      return;
    if (place.piece.storage == TensorStorage::kFile)
      files[place.piece.file].Release(place.piece.offset, here);
    offset += here;
    count -= here;
  }
}

Result<ModelSource> OpenModel(const std::filesystem::path& path) {
  if (const auto directory = FindGenaiDirectory(path); !directory.empty())
    return OpenGenaiModel(directory);
  if (const auto found = FindOnnxExport(path))
    return OpenOnnxExport(*found);
  if (const auto directory = FindHfDirectory(path); !directory.empty())
    return OpenHfModel(directory);
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    return Unsupported(
        "a directory without config.json or genai_config.json; a GGUF file, a Hugging Face "
        "directory or an ONNX Runtime GenAI folder expected",
        path.string());
  }
  return OpenGguf(path);
}

}  // namespace tenon

#include "model/model_source.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "model/gguf/gguf_model.h"
#include "model/hf/hf_model.h"
#include "model/onnx/genai_model.h"

namespace tenon {

Status ModelSource::ReadAt(const TensorInfo& tensor, uint64_t offset,
                           std::span<std::byte> out) const {
  if (tensor.storage == TensorInfo::Storage::kFile)
    return files[tensor.file].ReadAt(tensor.offset + offset, out);
  std::memcpy(out.data(), Bytes(tensor).data() + offset, out.size());
  return {};
}

void ModelSource::Release(const TensorInfo& tensor, uint64_t offset, uint64_t count) const {
  if (tensor.storage == TensorInfo::Storage::kFile)
    files[tensor.file].Release(tensor.offset + offset, count);
}

Result<ModelSource> OpenModel(const std::filesystem::path& path) {
  if (const auto directory = FindGenaiDirectory(path); !directory.empty())
    return OpenGenaiModel(directory);
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

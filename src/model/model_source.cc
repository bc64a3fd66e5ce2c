#include "model/model_source.h"

#include <filesystem>
#include <system_error>

#include "model/gguf/gguf_model.h"

namespace tenon {

Result<ModelSource> OpenModel(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    return Unsupported("a directory; the path of a GGUF file expected", path.string());
  return OpenGguf(path);
}

}  // namespace tenon

// From GGUF files to a ModelSource.
#pragma once

#include <filesystem>
#include <span>

#include "base/result.h"
#include "model/gguf/gguf_reader.h"
#include "model/model_source.h"

namespace tenon {

// Opens the GGUF model at `path`. Of a split model (x-00001-of-00003.gguf) any shard may be given;
// its siblings lie beside it, and a missing one is named in the error.
Result<ModelSource> OpenGguf(const std::filesystem::path& path);

// The model that parsed shards describe, in order; ModelSource::files is left empty. Tensors are
// moved out of `shards`.
Result<ModelSource> ModelFromGguf(std::span<GgufFile> shards);

}  // namespace tenon

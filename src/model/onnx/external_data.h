// Files beside an ONNX model that hold its tensors' bytes, confined to the model's directory.
//
// A location is a relative path without "..". What it leads to, links followed, must lie in the
// model's directory and have no other name (hard link) through which a foreign file could be read.
// One arrangement of links is allowed: the Hugging Face cache, where
// models--org--name/snapshots/<commit>/file is a link into models--org--name/blobs/.
// Threading: one thread at a time.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace tenon {

// The file that `location` names for a model in `directory`, links resolved; an error when it is
// not allowed or not there.
Result<std::filesystem::path> ResolveExternalFile(const std::filesystem::path& directory,
                                                  std::string_view location);

}  // namespace tenon

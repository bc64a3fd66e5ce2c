// The file of a trained router: safetensors, with fingerprints of both models in its metadata, so
// that it is refused with any others.
#pragma once

#include <filesystem>
#include <string>

#include "accel/routing/router_net.h"
#include "base/result.h"

namespace tenon {

struct RouterFile {
  RouterNet net;
  std::string small_fingerprint;
  std::string large_fingerprint;
};

Status WriteRouterFile(const std::filesystem::path& path, const RouterFile& router);

// Everything in the file is untrusted: names, types, shapes and finite values are checked.
Result<RouterFile> ReadRouterFile(const std::filesystem::path& path);

}  // namespace tenon

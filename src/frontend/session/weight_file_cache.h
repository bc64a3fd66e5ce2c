// WeightFileCache: packed weights in a directory, one file for each model and layout.
//
// A file's name is made from the model's contents and the layout, so that a moved or copied model
// finds it and a changed one does not. A model's contents are known by its files' sizes and times
// of change and by samples of every tensor: no protection against somebody who forges a model, who
// could as well change the model itself. Files are written in the background after a load and
// appear under their name when they are whole; a file that is damaged is removed with one warning.
// The directory holds no more than kMaxBytes, the files that were used least recently go first, and
// may be deleted at any time. Threading: different processes share a directory; an object belongs
// to one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/plan/weight_cache.h"
#include "frontend/session/weight_image.h"
#include "model/model_source.h"

namespace tenon {

struct WeightCacheOptions {
  // Smaller images are packed faster than found.
  uint64_t min_bytes = uint64_t{4} << 20;
  // Of all files together: a few models of the sizes that fit consumer machines.
  uint64_t max_bytes = uint64_t{32} << 30;
  // That stay free on the disk.
  uint64_t free_bytes = uint64_t{2} << 30;
  // kMapped suits processes that answer once.
  WeightPages pages = WeightPages::kMapped;
};

// Where the files of a user are: in the model store, beside its models.
std::filesystem::path DefaultWeightCacheDirectory();

// `source` is borrowed for the call. The result is never null; a directory that can't be used is an
// empty one.
std::unique_ptr<WeightCache> OpenWeightFileCache(const std::filesystem::path& directory,
                                                 const ModelSource& source,
                                                 const WeightCacheOptions& options = {});

// What changes when the model does: 64 hexadecimal digits.
Result<std::string> WeightIdentity(const ModelSource& source);

struct CachedWeights {
  std::filesystem::path path;
  WeightImageLabel label;
  uint64_t file_bytes = 0;
};
// The directory's whole files, least recently used first. Others are left out.
std::vector<CachedWeights> ListCachedWeights(const std::filesystem::path& directory);

// Removes the files that were made from the model at `origin`, a file or a directory.
Status RemoveCachedWeights(const std::filesystem::path& directory,
                           const std::filesystem::path& origin);

}  // namespace tenon

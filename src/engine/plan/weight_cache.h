// WeightCache: packed weights that another process has left for this one.
//
// Packed weights are one run of bytes that follows from the model and the layout alone, so they may
// be kept in a file and mapped: a later start then packs nothing, and processes share the pages.
// The engine knows only this interface; files, names and limits are the frontend's
// (frontend/session/weight_file_cache.h). Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/mapped_file.h"
#include "hal/thread_pool.h"

namespace tenon {

// Where an image's bytes lie while a model uses them.
enum class WeightPages : uint8_t {
  kMapped,  // in the file's own pages: the quickest start, shared by processes
  kCopied,  // in memory of the process, which has large pages whatever the file system has
};

// Bytes inside a mapped file.
struct WeightImage {
  MappedFile file;
  size_t offset = 0;  // of the first byte, a multiple of Buffer::kAlignment
  WeightPages pages = WeightPages::kMapped;
};

class WeightCache {
 public:
  virtual ~WeightCache() = default;

  // The image that was saved for this layout (WeightStore::LayoutText), `size` bytes, its contents
  // checked. None when there is none that can be used.
  virtual std::optional<WeightImage> Find(std::string_view layout, uint64_t size,
                                          ThreadPool& pool) = 0;

  // Keeps the image for later. May go on after the call: `image` must stay as it is until the cache
  // is destroyed. An image that can't be kept is no error.
  virtual void Save(std::string_view layout, std::span<const std::byte> image) = 0;
};

}  // namespace tenon

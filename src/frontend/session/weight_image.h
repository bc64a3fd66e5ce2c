// Files of packed weights.
//
// Layout: the image from offset 0, zeros to a multiple of 4096, then a trailer of 4096 bytes. The
// image comes first so that its large pages are the file's: a file system with large folios maps
// 2 MiB of it at once. The trailer names the model and the layout, and has digests of the image and
// of itself, so that a file that was cut or damaged is noticed and not used.
// Threading: free functions; different files from any threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/plan/weight_cache.h"
#include "hal/thread_pool.h"

namespace tenon {

// What an image holds.
struct WeightImageLabel {
  std::string identity;  // of the model's contents, 64 hexadecimal digits
  std::string layout;    // hash of WeightStore::LayoutText, 64 hexadecimal digits
  std::string origin;    // path of the model that it was made from; tells people, decides nothing
  uint64_t size = 0;     // bytes of the image
};

// Writes a whole file at `path`, which must not be there.
Status WriteWeightImage(const std::filesystem::path& path, const WeightImageLabel& label,
                        std::span<const std::byte> image);

// The label alone. Fails with kCorrupt when the file is none of these or was cut.
Result<WeightImageLabel> ReadWeightImageLabel(const std::filesystem::path& path);

// Maps the file. Fails with kCorrupt when it was cut or has another label than `expected` (origin
// apart).
Result<WeightImage> OpenWeightImage(const std::filesystem::path& path,
                                    const WeightImageLabel& expected);

// Compares the image with its digest: reads all of it once, which also brings its pages in. Fails
// with kCorrupt when it was changed after it was written.
Status CheckWeightImage(const WeightImage& image, ThreadPool& pool);

// 64 bits of these bytes; finds every change of one word. No protection against someone who wants a
// collision. Runs about as fast as memory is read.
uint64_t DigestBytes(std::span<const std::byte> bytes);

}  // namespace tenon

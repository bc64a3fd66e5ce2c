#include "frontend/session/model_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "frontend/store/sha256.h"

namespace tenon {
namespace {

// Of each tensor; a fine-tuned model differs in nearly every row.
constexpr size_t kSampleBytes = 4096;

void Add(Sha256& hash, const std::string& text) {
  hash.Update(std::as_bytes(std::span(text)));
}

void AddTensor(const ModelSource& source, const TensorInfo& tensor, Sha256& hash) {
  Add(hash, fmt::format("{} {} {} {}\n", tensor.name, static_cast<int>(tensor.dtype), tensor.rows(),
                        tensor.columns()));
  std::string sample(std::min<size_t>(kSampleBytes, tensor.bytes), '\0');
  const uint64_t middle = (tensor.bytes - sample.size()) / 2;
  // What can't be read counts as zeros; loading has read it all before.
  static_cast<void>(source.ReadAt(tensor, middle, std::as_writable_bytes(std::span(sample))).ok());
  Add(hash, sample);
}

}  // namespace

std::string ModelFingerprint(const Model& model) {
  Sha256 hash;
  for (const TensorInfo& tensor : model.source().tensors)
    AddTensor(model.source(), tensor, hash);
  // Numbers are the same for one kernel set at any thread count, and differ between sets.
  return fmt::format("sha256:{} {}", hash.Finish(), model.kernel_set_name());
}

}  // namespace tenon

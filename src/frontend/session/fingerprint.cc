#include "frontend/session/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "frontend/store/sha256.h"

namespace tenon {
namespace {

// Pieces of each tensor, evenly spread, and their size.
constexpr uint64_t kPieces = 8;
constexpr uint64_t kPieceBytes = 256;

void AddText(Sha256& hash, std::string_view text) {
  hash.Update(std::as_bytes(std::span(text)));
}

Status AddTensor(Sha256& hash, const ModelSource& source, const TensorInfo& tensor) {
  AddText(hash, fmt::format("{} {} {};", tensor.name, static_cast<int>(tensor.dtype),
                            fmt::join(tensor.shape, " ")));
  std::array<std::byte, kPieceBytes> piece;
  const uint64_t size = std::min(kPieceBytes, tensor.bytes);
  for (uint64_t i = 0; i < kPieces; ++i) {
    const uint64_t offset = (tensor.bytes - size) / (kPieces - 1) * i;
    const auto bytes = std::span(piece).first(size);
    TENON_RETURN_IF_ERROR(source.ReadAt(tensor, offset, bytes));
    hash.Update(bytes);
  }
  return {};
}

}  // namespace

Result<std::string> ModelFingerprint(const ModelSource& source) {
  Sha256 hash;
  const ModelConfig& config = source.config;
  AddText(hash, fmt::format("{} {} {} {};", config.architecture, config.hidden_size,
                            config.layer_count, config.vocab_size));
  for (const TensorInfo& tensor : source.tensors)
    TENON_RETURN_IF_ERROR(AddTensor(hash, source, tensor));
  return hash.Finish().substr(0, 32);
}

}  // namespace tenon

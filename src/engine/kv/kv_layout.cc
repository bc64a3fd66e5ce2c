#include "engine/kv/kv_layout.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

namespace tenon {
namespace {

struct DimensionRange {
  std::string_view field;
  int32_t value;
  int32_t high;
};

// Above every published model by an order of magnitude; their product still fits 64 bits.
constexpr int32_t kMaxLayers = 4096;
constexpr int32_t kMaxHeads = 4096;
constexpr int32_t kMaxHeadDim = 8192;

Status CheckConfig(const KvConfig& config) {
  const DimensionRange ranges[] = {{"layers", config.layers, kMaxLayers},
                                   {"kv_heads", config.kv_heads, kMaxHeads},
                                   {"head_dim", config.head_dim, kMaxHeadDim},
                                   {"blocks", config.blocks, std::numeric_limits<int32_t>::max()}};
  for (const DimensionRange& range : ranges) {
    if (range.value < 1 || range.value > range.high) {
      return InvalidArgument(fmt::format("found {}, expected 1 to {}", range.value, range.high),
                             fmt::format("KV cache: {}", range.field));
    }
  }
  if (config.float_copies < 0) {
    return InvalidArgument(fmt::format("found {}, expected 0 or more", config.float_copies),
                           "KV cache: float_copies");
  }
  if (config.head_dim % 8 != 0) {
    return InvalidArgument(fmt::format("found {}, expected a multiple of 8", config.head_dim),
                           "KV cache: head_dim");
  }
  return {};
}

}  // namespace

Result<KvLayout> KvLayout::Create(const KvConfig& config) {
  TENON_RETURN_IF_ERROR(CheckConfig(config));
  KvLayout layout;
  layout.key_bytes = static_cast<size_t>(KvKeyBytes(config.type, config.head_dim));
  layout.head_stride =
      layout.key_bytes + static_cast<size_t>(KvValueBytes(config.type, config.head_dim));
  const auto heads = static_cast<size_t>(config.kv_heads);
  layout.block_stride = layout.head_stride * heads;
  const size_t copies = IsPackedKv(config.type) ? static_cast<size_t>(config.float_copies) : 0;
  if (IsPackedKv(config.type)) {
    layout.copy_head_stride = 2 * static_cast<size_t>(KvKeyBytes(KvType::kF16, config.head_dim));
    layout.copy_stride = layout.copy_head_stride * heads;
  }
  const auto layers = static_cast<size_t>(config.layers);
  const auto blocks = static_cast<size_t>(config.blocks);
  // The kernels' strides and offsets are signed; half of them each for blocks and copies.
  constexpr auto kAddressable = static_cast<size_t>(std::numeric_limits<int64_t>::max()) / 2;
  if (blocks > kAddressable / layout.block_stride / layers ||
      (copies > 0 && copies > kAddressable / layout.copy_stride / layers)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("{} blocks of {} bytes in each of {} layers exceed the address "
                                 "space",
                                 blocks, layout.block_stride, layers),
                     "KV cache");
  }
  layout.layer_stride = layout.block_stride * blocks;
  layout.copy_layer_stride = layout.copy_stride * copies;
  layout.copies_offset = layout.layer_stride * layers;
  layout.total_bytes = layout.copies_offset + layout.copy_layer_stride * layers;
  return layout;
}

}  // namespace tenon

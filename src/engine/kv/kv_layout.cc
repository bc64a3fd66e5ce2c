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
  if (config.head_dim % 8 != 0) {
    return InvalidArgument(fmt::format("found {}, expected a multiple of 8", config.head_dim),
                           "KV cache: head_dim");
  }
  return {};
}

// kKvBlockTokens values or keys of head_dim elements.
size_t PartBytes(const KvConfig& config) {
  return static_cast<size_t>(KvTypeBytes(config.type) * config.head_dim * kKvBlockTokens);
}

}  // namespace

Result<KvLayout> KvLayout::Create(const KvConfig& config) {
  TENON_RETURN_IF_ERROR(CheckConfig(config));
  KvLayout layout;
  layout.part_bytes = PartBytes(config);
  layout.head_stride = 2 * layout.part_bytes;
  layout.block_stride = layout.head_stride * static_cast<size_t>(config.kv_heads);
  const auto layers = static_cast<size_t>(config.layers);
  const auto blocks = static_cast<size_t>(config.blocks);
  // The kernels' strides and offsets are signed.
  constexpr auto kAddressable = static_cast<size_t>(std::numeric_limits<int64_t>::max());
  if (blocks > kAddressable / layout.block_stride / layers) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("{} blocks of {} bytes in each of {} layers exceed the address "
                                 "space",
                                 blocks, layout.block_stride, layers),
                     "KV cache");
  }
  layout.layer_stride = layout.block_stride * blocks;
  layout.total_bytes = layout.layer_stride * layers;
  return layout;
}

}  // namespace tenon

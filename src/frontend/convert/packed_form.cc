#include "frontend/convert/packed_form.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "quant/blocks.h"
#include "quant/half.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// Values of a Q4_0 block, 0 to 15, in their order.
void UnpackNibbles(const BlockQ4_0& block, uint32_t (&values)[kSmallBlock]) {
  for (int j = 0; j < kSmallBlock / 2; ++j) {
    values[j] = block.qs[j] & 15U;
    values[j + kSmallBlock / 2] = block.qs[j] >> 4;
  }
}

void PackNibbles(const BlockQ4_0& block, std::byte* out) {
  uint32_t values[kSmallBlock];
  UnpackNibbles(block, values);
  for (int word = 0; word < kSmallBlock / 8; ++word) {
    uint32_t packed = 0;
    for (int i = 0; i < 8; ++i)
      packed |= values[word * 8 + i] << (4 * i);
    std::memcpy(out + word * 4, &packed, sizeof(packed));
  }
}

// The block's first field, in both formats.
float BlockScale(const std::byte* block) {
  uint16_t bits = 0;
  std::memcpy(&bits, block, sizeof(bits));
  return F16ToF32(bits);
}

Json WeightArguments(const PackedScheme& scheme) {
  Json weights;
  weights["num_bits"] = scheme.bits;
  weights["type"] = "int";
  weights["symmetric"] = true;
  weights["strategy"] = scheme.group == 0 ? "channel" : "group";
  weights["group_size"] = scheme.group == 0 ? Json() : Json(scheme.group);
  weights["dynamic"] = false;
  weights["actorder"] = nullptr;
  weights["observer"] = "minmax";
  return weights;
}

Json ActivationArguments(int bits) {
  Json activations;
  activations["num_bits"] = bits;
  activations["type"] = "int";
  activations["symmetric"] = true;
  activations["strategy"] = "token";
  activations["dynamic"] = true;
  return activations;
}

std::string_view FormatName(const PackedScheme& scheme) {
  return scheme.bits == 4 ? "pack-quantized" : "int-quantized";
}

}  // namespace

bool HasPackedForm(const TensorForm& form, int64_t columns) {
  const bool known = form.dtype == DType::kQ4_0 || form.dtype == DType::kQ8_0;
  return known && (form.group == 0 || columns % form.group == 0);
}

PackedScheme SchemeOf(const TensorForm& form) {
  return {form.dtype == DType::kQ4_0 ? 4 : 8, form.group};
}

void PackRow(DType dtype, std::span<const std::byte> row, std::span<std::byte> out) {
  const auto block_bytes = static_cast<size_t>(GetDTypeInfo(dtype).block_bytes);
  for (size_t i = 0; i * block_bytes < row.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (dtype == DType::kQ4_0)
      PackNibbles(LoadBlock<BlockQ4_0>(row.data(), index), out.data() + i * kSmallBlock / 2);
    else
      std::memcpy(out.data() + i * kSmallBlock, LoadBlock<BlockQ8_0>(row.data(), index).qs,
                  kSmallBlock);
  }
}

Result<std::vector<float>> RowScales(const TensorForm& form, std::span<const std::byte> row) {
  const auto block_bytes = static_cast<size_t>(GetDTypeInfo(form.dtype).block_bytes);
  const size_t blocks = row.size() / block_bytes;
  const size_t per_group = form.group == 0 ? blocks : static_cast<size_t>(form.group) / kSmallBlock;
  std::vector<float> scales;
  for (size_t block = 0; block < blocks; ++block) {
    const float scale = BlockScale(row.data() + block * block_bytes);
    if (block % per_group == 0)
      scales.push_back(scale);
    else if (scale != scales.back())
      return MakeError(
          ErrorCode::kInternal,
          fmt::format("blocks of one group have the scales {} and {}", scales.back(), scale));
  }
  return scales;
}

Json QuantizationConfig(const PackedModules& modules) {
  Json config;
  config["quant_method"] = "compressed-tensors";
  const bool mixed = modules.by_scheme.size() > 1;
  config["format"] = mixed ? "mixed-precision" : FormatName(modules.by_scheme.begin()->first);
  config["quantization_status"] = "compressed";
  Json& groups = config["config_groups"];
  for (const auto& [scheme, names] : modules.by_scheme) {
    Json group;
    // Of several schemes, each names its modules.
    group["targets"] = mixed ? Json(names) : Json::array({"Linear"});
    group["weights"] = WeightArguments(scheme);
    group["input_activations"] =
        modules.activation_bits > 0 ? ActivationArguments(modules.activation_bits) : Json();
    group["output_activations"] = nullptr;
    group["format"] = FormatName(scheme);
    groups[fmt::format("group_{}", groups.size())] = std::move(group);
  }
  config["ignore"] = modules.ignored;
  config["kv_cache_scheme"] = nullptr;
  return config;
}

}  // namespace tenon

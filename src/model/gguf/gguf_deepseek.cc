// ReadGgufDeepseek and MergeLatentTensors (gguf_fields.h): DeepSeek's latent attention and experts
// as llama.cpp's converter writes them.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "model/gguf/gguf_fields.h"
#include "quant/dequantize.h"

namespace tenon {
namespace {

constexpr int64_t kSigmoid = 2;  // expert_gating_func

// Newer files store keys of the latent's width and say the expanded ones' in *_mla.
Status ReadWidths(const GgufFields& fields, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  TENON_RETURN_IF_ERROR(fields.Optional("attention.q_lora_rank", latent.query_rank));
  TENON_RETURN_IF_ERROR(fields.Mandatory("attention.kv_lora_rank", latent.kv_rank));
  TENON_RETURN_IF_ERROR(fields.Mandatory("rope.dimension_count", latent.rotary_dim));
  TENON_RETURN_IF_ERROR(fields.Mandatory("attention.key_length", config.head_dim));
  TENON_RETURN_IF_ERROR(fields.Optional("attention.key_length_mla", config.head_dim));
  TENON_RETURN_IF_ERROR(fields.Mandatory("attention.value_length", latent.value_dim));
  TENON_RETURN_IF_ERROR(fields.Optional("attention.value_length_mla", latent.value_dim));
  latent.plain_dim = config.head_dim - latent.rotary_dim;
  config.kv_head_count = config.head_count;
  if (latent.plain_dim >= 1 && latent.value_dim <= config.head_dim)
    return {};
  return fields.Wrong("attention.key_length",
                      fmt::format("keys of {}, {} of them rotated, and values of {}",
                                  config.head_dim, latent.rotary_dim, latent.value_dim));
}

Status ReadExperts(const GgufFields& fields, ModelConfig& config) {
  ExpertConfig& experts = config.experts;
  TENON_RETURN_IF_ERROR(fields.Mandatory("expert_count", experts.count));
  TENON_RETURN_IF_ERROR(fields.Mandatory("expert_used_count", experts.used));
  TENON_RETURN_IF_ERROR(fields.Mandatory("expert_feed_forward_length", experts.ffn_size));
  int64_t shared = 0;
  TENON_RETURN_IF_ERROR(fields.Optional("expert_shared_count", shared));
  int64_t gating = 1;
  TENON_RETURN_IF_ERROR(fields.Optional("expert_gating_func", gating));
  TENON_RETURN_IF_ERROR(fields.Optional("expert_weights_scale", experts.scale));
  TENON_ASSIGN_OR_RETURN(const auto normalized, fields.Flag("expert_weights_norm"));
  TENON_RETURN_IF_ERROR(fields.Optional("expert_group_count", experts.groups));
  TENON_RETURN_IF_ERROR(fields.Optional("expert_group_used_count", experts.used_groups));
  int64_t dense = 0;
  TENON_RETURN_IF_ERROR(fields.Optional("leading_dense_block_count", dense));
  experts.shared_ffn_size = shared * experts.ffn_size;
  experts.sigmoid = gating == kSigmoid;
  experts.normalized = normalized.value_or(false);
  // V3 ranks groups by their best two experts, V2 by the best.
  experts.group_best = experts.sigmoid && experts.groups > 1 ? 2 : 1;
  for (int64_t layer = 0; layer < config.layer_count; ++layer)
    experts.dense_layers.push_back(layer < dense);
  const bool fits = experts.used <= experts.count && experts.count % experts.groups == 0 &&
                    experts.used_groups <= experts.groups &&
                    experts.group_best <= experts.count / experts.groups &&
                    experts.used <= experts.used_groups * (experts.count / experts.groups);
  if (fits && gating >= 1 && gating <= kSigmoid)
    return {};
  return fields.Wrong("expert_count",
                      fmt::format("{} of {} experts in {} of {} groups, gating {}", experts.used,
                                  experts.count, experts.used_groups, experts.groups, gating));
}

// "yarn_log_multiplier" is 0.1 mscale_all_dim: scores grow by the square of 1 + that ln(factor),
// and the two magnitudes of the reference cancel in cos and sin.
Status ReadScoreScale(const GgufFields& fields, ModelConfig& config) {
  double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  float multiplier = 0.0F;
  TENON_RETURN_IF_ERROR(fields.Optional("rope.scaling.yarn_log_multiplier", multiplier));
  if (config.rope.scaling == RopeScaling::kYarn && multiplier > 0.0F) {
    const double magnitude = 1.0 + double{multiplier} * std::log(double{config.rope.factor});
    scale *= magnitude * magnitude;
    config.rope.attention_factor = 1.0F;
  }
  config.attention_scale = static_cast<float>(scale);
  return {};
}

// Reads rows of a tensor as floats.
Result<std::vector<float>> AllFloats(const ModelSource& source, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  TENON_RETURN_IF_ERROR(source.ReadAt(tensor, 0, bytes));
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  const auto columns = static_cast<size_t>(tensor.columns());
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(tensor.dtype, tensor.columns()));
  for (size_t row = 0; row < static_cast<size_t>(tensor.rows()); ++row)
    DequantizeRow(tensor.dtype, std::span(bytes).subspan(row * row_bytes, row_bytes),
                  std::span(values).subspan(row * columns, columns));
  return values;
}

// "attn_k_b" [heads, latent, plain] and "attn_v_b" [heads, values, latent] as "attn_kv_b" [heads *
// (plain + values), latent], in float32.
Status MergeLayer(const TensorInfo& k, const TensorInfo& v, const std::string& name,
                  ModelSource& source) {
  const ModelConfig& config = source.config;
  const LatentConfig& latent = config.latent;
  const std::vector<int64_t> k_shape = {config.head_count, latent.kv_rank, latent.plain_dim};
  const std::vector<int64_t> v_shape = {config.head_count, latent.value_dim, latent.kv_rank};
  if (k.shape != k_shape || v.shape != v_shape)
    return Corrupt("the parts have other shapes than the hyperparameters say", name);
  TENON_ASSIGN_OR_RETURN(const std::vector<float> keys, AllFloats(source, k));
  TENON_ASSIGN_OR_RETURN(const std::vector<float> values, AllFloats(source, v));
  const auto rank = static_cast<size_t>(latent.kv_rank);
  const auto plain = static_cast<size_t>(latent.plain_dim);
  const auto wide = static_cast<size_t>(latent.value_dim);
  const auto heads = static_cast<size_t>(config.head_count);
  TENON_ASSIGN_OR_RETURN(Buffer buffer,
                         Buffer::Allocate(heads * (plain + wide) * rank * sizeof(float)));
  float* to = buffer.As<float>();
  for (size_t head = 0; head < heads; ++head) {
    for (size_t row = 0; row < plain; ++row) {
      for (size_t i = 0; i < rank; ++i)
        *to++ = keys[(head * rank + i) * plain + row];
    }
    std::memcpy(to, &values[head * wide * rank], wide * rank * sizeof(float));
    to += wide * rank;
  }
  TensorInfo merged;
  merged.name = name;
  merged.shape = {static_cast<int64_t>(heads * (plain + wide)), latent.kv_rank};
  merged.storage = TensorStorage::kBuffer;
  merged.file = static_cast<uint32_t>(source.buffers.size());
  merged.bytes = buffer.bytes().size();
  source.buffers.push_back(std::move(buffer));
  source.by_name.emplace(name, source.tensors.size());
  source.tensors.push_back(std::move(merged));
  return {};
}

}  // namespace

Status ReadGgufDeepseek(const GgufFields& fields, ModelConfig& config) {
  TENON_RETURN_IF_ERROR(ReadWidths(fields, config));
  TENON_RETURN_IF_ERROR(ReadGgufRope(fields, config));
  config.rope.rotary_dim = config.latent.rotary_dim;
  TENON_RETURN_IF_ERROR(ReadScoreScale(fields, config));
  return ReadExperts(fields, config);
}

Status MergeLatentTensors(ModelSource& source) {
  for (int64_t layer = 0; layer < source.config.layer_count; ++layer) {
    const std::string name = fmt::format("blk.{}.attn_kv_b.weight", layer);
    const TensorInfo* k = source.Find(fmt::format("blk.{}.attn_k_b.weight", layer));
    const TensorInfo* v = source.Find(fmt::format("blk.{}.attn_v_b.weight", layer));
    if (source.Find(name) != nullptr || k == nullptr || v == nullptr)
      continue;
    // Copies: adding a tensor moves the list.
    TENON_RETURN_IF_ERROR(MergeLayer(TensorInfo(*k), TensorInfo(*v), name, source));
  }
  std::vector<TensorInfo> kept;
  for (TensorInfo& tensor : source.tensors) {
    if (!tensor.name.ends_with(".attn_k_b.weight") && !tensor.name.ends_with(".attn_v_b.weight"))
      kept.push_back(std::move(tensor));
  }
  source.tensors = std::move(kept);
  source.by_name.clear();
  for (size_t i = 0; i < source.tensors.size(); ++i)
    source.by_name.emplace(source.tensors[i].name, i);
  return {};
}

}  // namespace tenon

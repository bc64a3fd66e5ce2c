#include "model/fused_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <utility>

namespace tenon {
namespace {

// Rows of a matrix that are one part.
struct RowSlice {
  std::string_view name;
  int64_t rows = 0;
};

// The slices of "blk.<layer>.<whole>.weight", one after the other, to `out`.
Status Slice(std::string_view whole, std::initializer_list<RowSlice> slices, int64_t layer,
             const ModelSource& source, std::vector<TensorInfo>& out) {
  const std::string name = fmt::format("blk.{}.{}.weight", layer, whole);
  const TensorInfo* all = source.Find(name);
  if (all == nullptr)
    return Corrupt("the tensor is missing from the model", name);
  int64_t rows = 0;
  for (const RowSlice& slice : slices)
    rows += slice.rows;
  if (all->shape.size() != 2 || all->shape[0] != rows) {
    return Corrupt(fmt::format("the tensor's shape is [{}], the hyperparameters need {} rows",
                               fmt::join(all->shape, ", "), rows),
                   name);
  }
  const auto row_bytes = static_cast<uint64_t>(DTypeRowBytes(all->dtype, all->columns()));
  uint64_t offset = all->offset;
  for (const RowSlice& slice : slices) {
    TensorInfo part = *all;
    part.name = fmt::format("blk.{}.{}.weight", layer, slice.name);
    part.shape[0] = slice.rows;
    part.offset = offset;
    part.bytes = row_bytes * static_cast<uint64_t>(slice.rows);
    offset += part.bytes;
    out.push_back(std::move(part));
  }
  return {};
}

}  // namespace

Status SlicePhi3Tensors(const ModelConfig& config, ModelSource& source) {
  const int64_t q = config.head_count * config.head_dim;
  const int64_t kv = config.kv_head_count * config.head_dim;
  std::vector<TensorInfo> tensors;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) {
    TENON_RETURN_IF_ERROR(
        Slice("attn_qkv", {{"attn_q", q}, {"attn_k", kv}, {"attn_v", kv}}, layer, source, tensors));
    TENON_RETURN_IF_ERROR(Slice("ffn_up",
                                {{"ffn_gate", config.ffn_size}, {"ffn_up", config.ffn_size}}, layer,
                                source, tensors));
  }
  // The wholes are no weights of the graph.
  for (TensorInfo& tensor : source.tensors) {
    if (!tensor.name.ends_with(".attn_qkv.weight") && !tensor.name.ends_with(".ffn_up.weight"))
      tensors.push_back(std::move(tensor));
  }
  source.tensors = std::move(tensors);
  source.by_name.clear();
  for (size_t i = 0; i < source.tensors.size(); ++i)
    source.by_name.emplace(source.tensors[i].name, i);
  return {};
}

}  // namespace tenon

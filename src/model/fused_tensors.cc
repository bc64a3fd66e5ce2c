#include "model/fused_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace tenon {
namespace {

// Rows of a matrix that are one part.
struct RowSlice {
  std::string_view name;
  int64_t rows = 0;
};

// The slices of "blk.<layer>.<whole>.<kind>", one after the other, to `out`.
struct Whole {
  std::string_view name;
  std::string_view kind;  // "weight" [rows, columns], or "bias" [rows]
};
Status Slice(const Whole& whole, std::initializer_list<RowSlice> slices, int64_t layer,
             const ModelSource& source, std::vector<TensorInfo>& out) {
  const std::string name = fmt::format("blk.{}.{}.{}", layer, whole.name, whole.kind);
  const TensorInfo* all = source.Find(name);
  if (all == nullptr)
    return Corrupt("the tensor is missing from the model", name);
  int64_t rows = 0;
  for (const RowSlice& slice : slices)
    rows += slice.rows;
  const size_t dimensions = whole.kind == "bias" ? 1 : 2;
  if (all->shape.size() != dimensions || all->shape[0] != rows) {
    return Corrupt(fmt::format("the tensor's shape is [{}], the hyperparameters need {} rows",
                               fmt::join(all->shape, ", "), rows),
                   name);
  }
  const uint64_t row_bytes = all->bytes / static_cast<uint64_t>(rows);
  uint64_t offset = all->offset;
  for (const RowSlice& slice : slices) {
    TensorInfo part = *all;
    part.name = fmt::format("blk.{}.{}.{}", layer, slice.name, whole.kind);
    part.shape[0] = slice.rows;
    part.offset = offset;
    part.bytes = row_bytes * static_cast<uint64_t>(slice.rows);
    offset += part.bytes;
    out.push_back(std::move(part));
  }
  return {};
}

// The experts "blk.<layer>.<name>.<e>.weight" as one tensor, to `out`.
Status StackOne(std::string_view name, int64_t layer, const ModelConfig& config,
                const ModelSource& source, std::vector<TensorInfo>& out) {
  TensorInfo stack;
  for (int64_t expert = 0; expert < config.experts.count; ++expert) {
    const std::string part = fmt::format("blk.{}.{}.{}.weight", layer, name, expert);
    const TensorInfo* tensor = source.Find(part);
    if (tensor == nullptr)
      return Corrupt("the tensor is missing from the model", part);
    if (expert == 0) {
      stack = *tensor;
      stack.name = fmt::format("blk.{}.{}_exps.weight", layer, name);
      stack.shape.insert(stack.shape.begin(), config.experts.count);
      stack.bytes = 0;
    }
    if (tensor->dtype != stack.dtype || !std::equal(tensor->shape.begin(), tensor->shape.end(),
                                                    stack.shape.begin() + 1, stack.shape.end())) {
      return Corrupt(fmt::format("the tensor is {} [{}], another type or shape than expert 0 has",
                                 DTypeName(tensor->dtype), fmt::join(tensor->shape, ", ")),
                     part);
    }
    stack.pieces.push_back({tensor->storage, tensor->file, tensor->offset});
    stack.bytes += tensor->bytes;
  }
  out.push_back(std::move(stack));
  return {};
}

// Whether a name is "blk.<n>.ffn_<...>.<expert>.weight".
bool IsExpert(std::string_view name) {
  constexpr std::string_view kKind = ".weight";
  if (!name.ends_with(kKind))
    return false;
  name.remove_suffix(kKind.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size())
    return false;
  const std::string_view number = name.substr(dot + 1);
  const std::string_view stem = name.substr(0, dot);
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         (stem.ends_with(".ffn_gate") || stem.ends_with(".ffn_up") || stem.ends_with(".ffn_down"));
}

// The tensor's bytes are now these.
void MoveToBuffer(Buffer buffer, TensorInfo& tensor, ModelSource& source) {
  tensor.storage = TensorStorage::kBuffer;
  tensor.file = static_cast<uint32_t>(source.buffers.size());
  tensor.offset = 0;
  source.buffers.push_back(std::move(buffer));
}

Status Transpose(TensorInfo& tensor, ModelSource& source) {
  const auto size = static_cast<size_t>(DTypeRowBytes(tensor.dtype, 1));
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(tensor.bytes));
  const std::byte* from = source.Bytes(tensor).data();
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column)
      std::memcpy(buffer.data() + (column * rows + row) * size,
                  from + (row * columns + column) * size, size);
  }
  source.Release(tensor, 0, tensor.bytes);
  std::swap(tensor.shape[0], tensor.shape[1]);
  MoveToBuffer(std::move(buffer), tensor, source);
  return {};
}

void Replace(std::vector<TensorInfo> tensors, ModelSource& source) {
  source.tensors = std::move(tensors);
  source.by_name.clear();
  for (size_t i = 0; i < source.tensors.size(); ++i)
    source.by_name.emplace(source.tensors[i].name, i);
}

}  // namespace

Status SlicePhi3Tensors(const ModelConfig& config, ModelSource& source) {
  const int64_t q = config.head_count * config.head_dim;
  const int64_t kv = config.kv_head_count * config.head_dim;
  std::vector<TensorInfo> tensors;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) {
    TENON_RETURN_IF_ERROR(Slice({"attn_qkv", "weight"},
                                {{"attn_q", q}, {"attn_k", kv}, {"attn_v", kv}}, layer, source,
                                tensors));
    TENON_RETURN_IF_ERROR(Slice({"ffn_up", "weight"},
                                {{"ffn_gate", config.ffn_size}, {"ffn_up", config.ffn_size}}, layer,
                                source, tensors));
  }
  // The wholes are no weights of the graph.
  for (TensorInfo& tensor : source.tensors) {
    if (!tensor.name.ends_with(".attn_qkv.weight") && !tensor.name.ends_with(".ffn_up.weight"))
      tensors.push_back(std::move(tensor));
  }
  Replace(std::move(tensors), source);
  return {};
}

Status SliceQkvTensors(const ModelConfig& config, ModelSource& source) {
  const int64_t rows = config.head_count * config.head_dim;
  std::vector<TensorInfo> tensors;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) {
    for (const std::string_view kind : {"weight", "bias"}) {
      TENON_RETURN_IF_ERROR(Slice({"attn_qkv", kind},
                                  {{"attn_q", rows}, {"attn_k", rows}, {"attn_v", rows}}, layer,
                                  source, tensors));
    }
  }
  for (TensorInfo& tensor : source.tensors) {
    if (tensor.name.find(".attn_qkv.") == std::string::npos)
      tensors.push_back(std::move(tensor));
  }
  Replace(std::move(tensors), source);
  return {};
}

Status TransposeLayers(ModelSource& source) {
  for (TensorInfo& tensor : source.tensors) {
    if (tensor.name.starts_with("blk.") && tensor.shape.size() == 2)
      TENON_RETURN_IF_ERROR(Transpose(tensor, source));
  }
  return {};
}

Status TransposeMatrix(std::string_view name, ModelSource& source) {
  for (TensorInfo& tensor : source.tensors) {
    if (tensor.name == name && tensor.shape.size() == 2)
      TENON_RETURN_IF_ERROR(Transpose(tensor, source));
  }
  return {};
}

Status RegroupHeads(const ModelConfig& config, ModelSource& source) {
  constexpr size_t kParts = 3;  // query, key, value
  const auto heads = static_cast<size_t>(config.head_count);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  for (TensorInfo& tensor : source.tensors) {
    if (tensor.name.find(".attn_qkv.") == std::string::npos)
      continue;
    if (static_cast<size_t>(tensor.shape[0]) != kParts * heads * head_dim) {
      return Corrupt(fmt::format("{} rows found, {} for each of {} heads expected", tensor.shape[0],
                                 kParts * head_dim, heads),
                     tensor.name);
    }
    TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(tensor.bytes));
    const size_t piece = tensor.bytes / (kParts * heads);  // of one head's query, key or value
    const std::byte* from = source.Bytes(tensor).data();
    for (size_t head = 0; head < heads; ++head) {
      for (size_t part = 0; part < kParts; ++part)
        std::memcpy(buffer.data() + (part * heads + head) * piece,
                    from + (head * kParts + part) * piece, piece);
    }
    MoveToBuffer(std::move(buffer), tensor, source);
  }
  return {};
}

Status StackExperts(const ModelConfig& config, ModelSource& source) {
  std::vector<TensorInfo> tensors;
  for (int64_t layer = 0; layer < config.layer_count; ++layer) {
    for (const std::string_view name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      if (HasExperts(config, layer) &&
          source.Find(fmt::format("blk.{}.{}_exps.weight", layer, name)) == nullptr)
        TENON_RETURN_IF_ERROR(StackOne(name, layer, config, source, tensors));
    }
  }
  if (tensors.empty())
    return {};
  for (TensorInfo& tensor : source.tensors) {
    if (!IsExpert(tensor.name))
      tensors.push_back(std::move(tensor));
  }
  Replace(std::move(tensors), source);
  return {};
}

}  // namespace tenon

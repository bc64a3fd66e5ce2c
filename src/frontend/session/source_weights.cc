#include "frontend/session/source_weights.h"

#include <fmt/format.h>

namespace tenon {

Result<const TensorInfo*> SourceWeights::Tensor(std::string_view name) const {
  const TensorInfo* tensor = source_.Find(name);
  if (tensor == nullptr)
    return NotFound("the tensor is missing from the model", std::string(name));
  return tensor;
}

Result<WeightView> SourceWeights::Find(std::string_view name) const {
  TENON_ASSIGN_OR_RETURN(const TensorInfo* tensor, Tensor(name));
  return WeightView{tensor->dtype, tensor->rows(), tensor->columns(), source_.Bytes(*tensor)};
}

Result<std::span<const std::byte>> SourceWeights::BytesAt(std::string_view name, uint64_t offset,
                                                          uint64_t count) const {
  TENON_ASSIGN_OR_RETURN(const TensorInfo* tensor, Tensor(name));
  return source_.BytesAt(*tensor, offset, count);
}

Status SourceWeights::ReadAt(std::string_view name, uint64_t offset,
                             std::span<std::byte> out) const {
  TENON_ASSIGN_OR_RETURN(const TensorInfo* tensor, Tensor(name));
  if (offset > tensor->bytes || out.size() > tensor->bytes - offset) {
    return InvalidArgument(
        fmt::format("bytes {}..{} of a tensor of {}", offset, offset + out.size(), tensor->bytes),
        std::string(name));
  }
  return source_.ReadAt(*tensor, offset, out);
}

void SourceWeights::Release(std::string_view name, uint64_t offset, uint64_t count) const {
  const TensorInfo* tensor = source_.Find(name);
  if (tensor != nullptr)
    source_.Release(*tensor, offset, count);
}

void SourceWeights::ReleaseAll() const {
  for (const MappedFile& file : source_.files)
    file.Release(0, file.size());
}

}  // namespace tenon

// SourceWeights: the engine's WeightSource over a ModelSource. Holds a reference; the source must
// outlive it. Threading: any thread.
#pragma once

#include "engine/plan/weight_source.h"
#include "model/model_source.h"

namespace tenon {

class SourceWeights final : public WeightSource {
 public:
  explicit SourceWeights(const ModelSource& source) : source_(source) {}

  Result<WeightView> Find(std::string_view name) const override;
  Result<std::span<const std::byte>> BytesAt(std::string_view name, uint64_t offset,
                                             uint64_t count) const override;
  Status ReadAt(std::string_view name, uint64_t offset, std::span<std::byte> out) const override;
  void Release(std::string_view name, uint64_t offset, uint64_t count) const override;
  void ReleaseAll() const override;

 private:
  Result<const TensorInfo*> Tensor(std::string_view name) const;

  const ModelSource& source_;
};

}  // namespace tenon

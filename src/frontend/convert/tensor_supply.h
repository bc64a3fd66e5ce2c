// TensorSupply: where an exporter gets a model's values from: the source itself, values rounded on
// the way, or what a quantizer made of them.
//
// Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

struct TensorForm {
  DType dtype = DType::kF32;
  // Of Q4_0 and Q8_0: inputs of a row that have one scale, a multiple of 32; 0: all of the row.
  int64_t group = 32;

  bool operator==(const TensorForm&) const = default;
};

// Of a vector, each value is a row.
int64_t SupplyRows(const TensorInfo& tensor);
int64_t SupplyColumns(const TensorInfo& tensor);

class TensorSupply {
 public:
  virtual ~TensorSupply() = default;

  // How ReadRows gives the tensor's values. The same in every call.
  virtual TensorForm FormOf(const TensorInfo& tensor) const = 0;
  // Rows from `first` on, as many as `out` holds: out.size() is a multiple of
  // DTypeRowBytes(FormOf(tensor).dtype, SupplyColumns(tensor)). A tensor may be read twice.
  virtual Status ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) = 0;
  // The tensor's values have been read for now: what holds them may let them go.
  virtual void Release(const TensorInfo& tensor) = 0;
};

// The source's tensors as they are.
class SourceSupply final : public TensorSupply {
 public:
  explicit SourceSupply(const ModelSource& source) : source_(source) {}

  TensorForm FormOf(const TensorInfo& tensor) const override { return {tensor.dtype, 32}; }
  Status ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) override;
  void Release(const TensorInfo& tensor) override { source_.Release(tensor, 0, tensor.bytes); }

 private:
  const ModelSource& source_;
};

// Matrices of linear modules rounded to Q4_0 or Q8_0 by the format's own rule, except the head;
// everything else as it is. Rows of another length than whole blocks stay too.
class RoundingSupply final : public TensorSupply {
 public:
  // `dtype` is kQ4_0 or kQ8_0.
  RoundingSupply(const ModelSource& source, DType dtype) : below_(source), dtype_(dtype) {}

  TensorForm FormOf(const TensorInfo& tensor) const override;
  Status ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) override;
  void Release(const TensorInfo& tensor) override { below_.Release(tensor); }

 private:
  SourceSupply below_;
  DType dtype_;
  std::vector<std::byte> row_;
  std::vector<float> values_;
};

}  // namespace tenon

// LayeredWeights: a model's weights with some of them replaced by matrices in memory, and the table
// that a graph slice takes its input from.
//
// Holds a reference to the weights below. Threading: look-ups from any thread between changes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/plan/weight_source.h"
#include "quant/matrix.h"

namespace tenon {

class LayeredWeights final : public WeightSource {
 public:
  explicit LayeredWeights(const WeightSource& below) : below_(below) {}

  // Puts F32 values in the place of a weight's. REQUIRES: the shape is the weight's.
  void Replace(const std::string& name, Matrix values) {
    replaced_.insert_or_assign(name, std::move(values));
  }
  void RestoreAll() { replaced_.clear(); }

  // The rows that the next step reads (graph/slice.h); the memory must outlive it.
  void SetInput(int64_t rows, int64_t columns) {
    input_rows_ = rows;
    input_columns_ = columns;
  }
  void PointInputAt(std::span<const float> values) { input_ = values; }

  Result<WeightView> Find(std::string_view name) const override;
  Result<std::span<const std::byte>> BytesAt(std::string_view name, uint64_t offset,
                                             uint64_t count) const override;
  Status ReadAt(std::string_view name, uint64_t offset, std::span<std::byte> out) const override;
  void Release(std::string_view name, uint64_t offset, uint64_t count) const override;
  void ReleaseAll() const override { below_.ReleaseAll(); }

 private:
  const WeightSource& below_;
  std::map<std::string, Matrix, std::less<>> replaced_;
  std::span<const float> input_;
  int64_t input_rows_ = 0;
  int64_t input_columns_ = 0;
};

// The weight's values as floats; a vector is one row.
Result<Matrix> LoadMatrix(const WeightSource& source, std::string_view name);
// Rows [first, first + count) of it. REQUIRES: inside the weight.
Result<Matrix> LoadRows(const WeightSource& source, std::string_view name, int64_t first,
                        int64_t count);

}  // namespace tenon

// FloatInput: a float tensor's elements as F32, without a copy where they are.
#pragma once

#include <vector>

#include "engine/program/number_convert.h"
#include "engine/program/tensor_view.h"

namespace tenon {

class FloatInput {
 public:
  explicit FloatInput(const TensorView& view) : data_(view.As<float>()) {
    if (view.type == ElementType::kF32)
      return;
    std::vector<double> wide(static_cast<size_t>(view.count()));
    LoadDoubles(view.type, view.data, view.count(), wide.data());
    copy_.assign(wide.begin(), wide.end());
    data_ = copy_.data();
  }
  FloatInput(const FloatInput&) = delete;
  FloatInput& operator=(const FloatInput&) = delete;

  const float* data() const { return data_; }

 private:
  std::vector<float> copy_;
  const float* data_;
};

// F32 results for an output of any float type: written in place when it is F32, else converted by
// Finish.
class FloatOutput {
 public:
  explicit FloatOutput(const TensorView& view) : view_(view), data_(view.As<float>()) {
    if (view.type != ElementType::kF32) {
      copy_.resize(static_cast<size_t>(view.count()));
      data_ = copy_.data();
    }
  }
  float* data() { return data_; }
  void Finish() {
    if (view_.type == ElementType::kF32)
      return;
    const std::vector<double> wide(copy_.begin(), copy_.end());
    StoreDoubles(view_.type, wide.data(), view_.count(), view_.data);
  }

 private:
  const TensorView view_;
  std::vector<float> copy_;
  float* data_;
};

}  // namespace tenon

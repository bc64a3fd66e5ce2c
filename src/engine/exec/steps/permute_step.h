// PermuteStep: the columns of every row in another order. Source: graph op `permute`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/exec/step_context.h"

namespace tenon {

class PermuteStep final : public PlanStep {
 public:
  struct Args {
    QuantizeRowFn quantize = nullptr;  // when out is quantized
    std::vector<int32_t> order;        // [columns] each from 0 to columns - 1
    Operand x;
    Operand out;
  };
  PermuteStep(std::string name, Args args) : PlanStep(std::move(name)), args_(std::move(args)) {}

  std::string Describe() const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

// The numbers of columns that `order` holds. kCorrupt, naming `tensor`, when they are not each of 0
// to order.size() - 1 once.
Result<std::vector<int32_t>> ReadColumnOrder(std::span<const float> order,
                                             const std::string& tensor);

}  // namespace tenon

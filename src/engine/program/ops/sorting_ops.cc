// TopK.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"

namespace tenon {
namespace {

Result<int64_t> WantedCount(const NodeCall& call) {
  if (!call.Has(1))
    return call.node().Integer("k", 0);
  TENON_ASSIGN_OR_RETURN(const auto k, call.Integers(1));
  return k.size() == 1 ? Result<int64_t>(k[0]) : call.Wrong("one k expected");
}

Status TopK(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", -1), x.rank()));
  TENON_ASSIGN_OR_RETURN(const int64_t k, WantedCount(call));
  const auto d = static_cast<size_t>(axis);
  const int64_t extent = x.shape[d];
  if (k < 0 || k > extent)
    return call.Wrong("k larger than the axis");
  Extents shape = x.shape;
  shape[d] = k;
  int64_t stride = 1;
  for (size_t i = d + 1; i < shape.size(); ++i)
    stride *= shape[i];
  TENON_ASSIGN_OR_RETURN(const TensorView values, call.Output(0, x.type, shape));
  TENON_ASSIGN_OR_RETURN(const TensorView indices, call.Output(1, ElementType::kI64, shape));
  if (k == 0)
    return {};
  const bool largest = call.node().Integer("largest", 1) != 0;
  const int64_t size = ElementBytes(x.type);
  std::vector<double> row(static_cast<size_t>(extent));
  std::vector<int64_t> order(row.size());
  for (int64_t r = 0; r < values.count() / k; ++r) {
    const int64_t first = r / stride * extent * stride + r % stride;
    for (int64_t i = 0; i < extent; ++i)
      LoadDoubles(x.type, x.data + (first + i * stride) * size, 1, &row[static_cast<size_t>(i)]);
    std::iota(order.begin(), order.end(), 0);
    // Equal values keep the order of their indices.
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double va = row[static_cast<size_t>(a)];
      const double vb = row[static_cast<size_t>(b)];
      return largest ? va > vb : va < vb;
    });
    const int64_t target = r / stride * k * stride + r % stride;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t index = order[static_cast<size_t>(i)];
      std::memcpy(values.data + (target + i * stride) * size,
                  x.data + (first + index * stride) * size, static_cast<size_t>(size));
      indices.As<int64_t>()[target + i * stride] = index;
    }
  }
  return {};
}

constexpr ProgramOp kOps[] = {{"", "TopK", 1, kEveryVersion, TopK, kPlainOp}};

}  // namespace

std::span<const ProgramOp> SortingOps() {
  return kOps;
}

}  // namespace tenon

// Reductions along axes, and softmax (ONNX operators of the same names).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

// Adds up a group of elements: a state of two numbers (the second one is a count or a maximum).
struct ReduceRow {
  std::string_view name;
  double start;
  double (*add)(double state, double x);
  double (*end)(double state, double count);
  int64_t (*integer)(int64_t state, int64_t x);  // null: through doubles
  int64_t integer_start;
};

double Keep(double state, double) {
  return state;
}
double Plus(double state, double x) {
  return state + x;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr ReduceRow kRows[] = {
    {"ReduceSum", 0.0, Plus, Keep,
     [](int64_t s, int64_t x) {
       return static_cast<int64_t>(static_cast<uint64_t>(s) + static_cast<uint64_t>(x));
     },
     0},
    {"ReduceMean", 0.0, Plus, [](double s, double n) { return s / n; }, nullptr, 0},
    {"ReduceProd", 1.0, [](double s, double x) { return s * x; }, Keep,
     [](int64_t s, int64_t x) {
       return static_cast<int64_t>(static_cast<uint64_t>(s) * static_cast<uint64_t>(x));
     },
     1},
    {"ReduceMax", -kInfinity, [](double s, double x) { return std::isnan(s) || s > x ? s : x; },
     Keep, [](int64_t s, int64_t x) { return std::max(s, x); }, INT64_MIN},
    {"ReduceMin", kInfinity, [](double s, double x) { return std::isnan(s) || s < x ? s : x; },
     Keep, [](int64_t s, int64_t x) { return std::min(s, x); }, INT64_MAX},
    {"ReduceL1", 0.0, [](double s, double x) { return s + std::fabs(x); }, Keep, nullptr, 0},
    {"ReduceL2", 0.0, [](double s, double x) { return s + x * x; },
     [](double s, double) { return std::sqrt(s); }, nullptr, 0},
    {"ReduceSumSquare", 0.0, [](double s, double x) { return s + x * x; }, Keep, nullptr, 0},
    {"ReduceLogSum", 0.0, Plus, [](double s, double) { return std::log(s); }, nullptr, 0},
};

const ReduceRow* FindRow(std::string_view name) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const ReduceRow& row) { return row.name == name; });
  return found == std::end(kRows) ? nullptr : found;
}

// The input seen as kept dimensions and reduced ones.
struct ReducePlan {
  Extents out_shape;     // as the operator says (keepdims)
  Extents kept;          // extents
  Extents kept_strides;  // in the input
  Extents reduced;
  Extents reduced_strides;
};

Result<std::vector<int64_t>> ReduceAxes(const NodeCall& call, bool& none) {
  std::vector<int64_t> axes;
  if (call.Has(1)) {
    TENON_ASSIGN_OR_RETURN(axes, call.Integers(1));
  } else if (const auto* list = call.node().Integers("axes")) {
    axes = *list;
  }
  none = axes.empty();
  return axes;
}

Result<ReducePlan> PlanReduce(const NodeCall& call) {
  const TensorView& x = call.input(0);
  bool none = false;
  TENON_ASSIGN_OR_RETURN(auto axes, ReduceAxes(call, none));
  const bool nothing = none && call.node().Integer("noop_with_empty_axes", 0) != 0;
  const bool keep = call.node().Integer("keepdims", 1) != 0;
  std::vector<bool> reduced(x.shape.size(), none && !nothing);
  for (const int64_t axis : axes) {
    TENON_ASSIGN_OR_RETURN(const int64_t d, call.Axis(axis, x.rank()));
    reduced[static_cast<size_t>(d)] = true;
  }
  const Extents strides = ContiguousStrides(x.shape);
  ReducePlan plan;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    (reduced[d] ? plan.reduced : plan.kept).push_back(x.shape[d]);
    (reduced[d] ? plan.reduced_strides : plan.kept_strides).push_back(strides[d]);
    if (!reduced[d])
      plan.out_shape.push_back(x.shape[d]);
    else if (keep)
      plan.out_shape.push_back(1);
  }
  return plan;
}

// visit(output index, offset of the group's first element), for each group.
template <class Visit>
void ForGroups(const ReducePlan& plan, Visit visit) {
  const RowWalk walk(plan.kept, {plan.kept_strides, ContiguousStrides(plan.kept)});
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t i = 0; i < walk.inner(); ++i)
      visit(o[1] + i * walk.inner_stride(1), o[0] + i * walk.inner_stride(0));
  });
}

// visit(offset from the group's first element), for each element of a group.
template <class Visit>
void ForElements(const RowWalk& walk, Visit visit) {
  walk.ForEachRow([&](const int64_t* o) {
    for (int64_t i = 0; i < walk.inner(); ++i)
      visit(o[0] + i * walk.inner_stride(0));
  });
}

double LoadOne(const TensorView& x, int64_t at) {
  if (x.type == ElementType::kF32)
    return double{x.As<float>()[at]};
  double value = 0.0;
  LoadDoubles(x.type, x.data + at * ElementBytes(x.type), 1, &value);
  return value;
}

void ReduceIntegers(const ReduceRow& row, const TensorView& x, const ReducePlan& plan,
                    const TensorView& out) {
  const RowWalk group(plan.reduced, {plan.reduced_strides});
  ForGroups(plan, [&](int64_t index, int64_t first) {
    int64_t state = row.integer_start;
    ForElements(group, [&](int64_t at) {
      int64_t value = 0;
      LoadIntegers(x.type, x.data + (first + at) * ElementBytes(x.type), 1, &value);
      state = row.integer(state, value);
    });
    StoreIntegers(out.type, &state, 1, out.data + index * ElementBytes(out.type));
  });
}

Status Reduce(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const ReduceRow& row = *FindRow(call.node().op);
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const ReducePlan plan, PlanReduce(call));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, plan.out_shape));
  const auto count = static_cast<double>(ElementCount(plan.reduced));
  if (!IsFloat(x.type) && row.integer != nullptr && count > 0.0) {
    ReduceIntegers(row, x, plan, out);
    return {};
  }
  const RowWalk group(plan.reduced, {plan.reduced_strides});
  ForGroups(plan, [&](int64_t index, int64_t first) {
    double state = row.start;
    ForElements(group, [&](int64_t at) { state = row.add(state, LoadOne(x, first + at)); });
    state = row.end(state, count);
    if (count == 0.0 && x.type == ElementType::kBool)
      state = state > 0.0 ? 1.0 : 0.0;
    else if (count == 0.0 && !IsFloat(x.type) && std::isinf(state))
      state = state > 0.0 ? 9e18 : -9e18;
    StoreDoubles(out.type, &state, 1, out.data + index * ElementBytes(out.type));
  });
  return {};
}

Status ReduceLogSumExp(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const ReducePlan plan, PlanReduce(call));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, plan.out_shape));
  const RowWalk group(plan.reduced, {plan.reduced_strides});
  ForGroups(plan, [&](int64_t index, int64_t first) {
    double largest = -kInfinity;
    ForElements(group, [&](int64_t at) { largest = std::fmax(largest, LoadOne(x, first + at)); });
    const double shift = std::isinf(largest) ? 0.0 : largest;
    double sum = 0.0;
    ForElements(group, [&](int64_t at) { sum += std::exp(LoadOne(x, first + at) - shift); });
    const double value = std::log(sum) + shift;
    StoreDoubles(out.type, &value, 1, out.data + index * ElementBytes(out.type));
  });
  return {};
}

// Rows of one dimension: `count` elements `stride` apart, for each of outer * stride starts.
struct AxisRows {
  int64_t outer = 1;
  int64_t count = 1;
  int64_t stride = 1;
};

Result<AxisRows> RowsOf(const NodeCall& call, const Extents& shape, int64_t axis) {
  TENON_ASSIGN_OR_RETURN(axis, call.Axis(axis, static_cast<int64_t>(shape.size())));
  AxisRows rows;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) < axis)
      rows.outer *= shape[d];
    else if (static_cast<int64_t>(d) > axis)
      rows.stride *= shape[d];
    else
      rows.count = shape[d];
  }
  return rows;
}

void SoftmaxRow(std::vector<double>& row, std::string_view op) {
  const auto largest = std::max_element(row.begin(), row.end());
  const double shift = std::isinf(*largest) && *largest < 0.0 ? 0.0 : *largest;
  if (op == "Hardmax") {
    const auto hot = largest - row.begin();
    std::fill(row.begin(), row.end(), 0.0);
    row[static_cast<size_t>(hot)] = 1.0;
    return;
  }
  double sum = 0.0;
  for (const double x : row)
    sum += std::exp(x - shift);
  const double log_sum = std::log(sum);
  for (double& x : row)
    x = op == "Softmax" ? std::exp(x - shift) / sum : x - shift - log_sum;
}

Status Softmax(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  const bool flat = call.version() < 13;
  AxisRows rows;
  if (x.rank() > 0) {
    TENON_ASSIGN_OR_RETURN(rows, RowsOf(call, x.shape, call.node().Integer("axis", flat ? 1 : -1)));
  }
  if (flat) {
    // Operator sets before 13: everything from the axis on is one row.
    rows.count *= rows.stride;
    rows.stride = 1;
  }
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  if (rows.count == 0)
    return {};
  const int64_t size = ElementBytes(x.type);
  call.pool().ParallelFor(rows.outer * rows.stride, 4, [&](int64_t begin, int64_t end, int) {
    std::vector<double> row(static_cast<size_t>(rows.count));
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = r / rows.stride * rows.count * rows.stride + r % rows.stride;
      for (int64_t i = 0; i < rows.count; ++i)
        row[static_cast<size_t>(i)] = LoadOne(x, first + i * rows.stride);
      SoftmaxRow(row, call.node().op);
      for (int64_t i = 0; i < rows.count; ++i)
        StoreDoubles(out.type, &row[static_cast<size_t>(i)], 1,
                     out.data + (first + i * rows.stride) * size);
    }
  });
  return {};
}

Status LpNormalization(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const AxisRows rows,
                         RowsOf(call, x.shape, call.node().Integer("axis", -1)));
  const bool absolute = call.node().Integer("p", 2) == 1;
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  for (int64_t r = 0; r < rows.outer * rows.stride; ++r) {
    const int64_t first = r / rows.stride * rows.count * rows.stride + r % rows.stride;
    double sum = 0.0;
    for (int64_t i = 0; i < rows.count; ++i) {
      const double value = LoadOne(x, first + i * rows.stride);
      sum += absolute ? std::fabs(value) : value * value;
    }
    const double norm = absolute ? sum : std::sqrt(sum);
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t at = first + i * rows.stride;
      const double value = norm == 0.0 ? 0.0 : LoadOne(x, at) / norm;
      StoreDoubles(out.type, &value, 1, out.data + at * ElementBytes(x.type));
    }
  }
  return {};
}

// CumSum and CumProd.
Status Cumulate(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const auto axis, call.Integers(1));
  if (axis.size() != 1)
    return call.Wrong("one axis expected");
  TENON_ASSIGN_OR_RETURN(const AxisRows rows, RowsOf(call, x.shape, axis[0]));
  const bool product = call.node().op == "CumProd";
  const bool exclusive = call.node().Integer("exclusive", 0) != 0;
  const bool reverse = call.node().Integer("reverse", 0) != 0;
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  for (int64_t r = 0; r < rows.outer * rows.stride; ++r) {
    const int64_t first = r / rows.stride * rows.count * rows.stride + r % rows.stride;
    double state = product ? 1.0 : 0.0;
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t at = first + (reverse ? rows.count - 1 - i : i) * rows.stride;
      const double value = LoadOne(x, at);
      const double next = product ? state * value : state + value;
      StoreDoubles(out.type, exclusive ? &state : &next, 1, out.data + at * ElementBytes(x.type));
      state = next;
    }
  }
  return {};
}

Status ArgExtreme(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  const int64_t axis = call.node().Integer("axis", 0);
  TENON_ASSIGN_OR_RETURN(const AxisRows rows, RowsOf(call, x.shape, axis));
  TENON_ASSIGN_OR_RETURN(const int64_t d, call.Axis(axis, x.rank()));
  Extents shape = x.shape;
  if (call.node().Integer("keepdims", 1) != 0)
    shape[static_cast<size_t>(d)] = 1;
  else
    shape.erase(shape.begin() + d);
  const bool last = call.node().Integer("select_last_index", 0) != 0;
  const double sign = call.node().op == "ArgMax" ? 1.0 : -1.0;
  if (rows.count == 0)
    return call.Wrong("an empty axis");
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kI64, std::move(shape)));
  for (int64_t r = 0; r < rows.outer * rows.stride; ++r) {
    const int64_t first = r / rows.stride * rows.count * rows.stride + r % rows.stride;
    int64_t best = 0;
    double best_value = sign * LoadOne(x, first);
    for (int64_t i = 1; i < rows.count; ++i) {
      const double value = sign * LoadOne(x, first + i * rows.stride);
      if (value > best_value || (last && value == best_value)) {
        best = i;
        best_value = value;
      }
    }
    out.As<int64_t>()[r] = best;
  }
  return {};
}

std::vector<ProgramOp> MakeOps() {
  std::vector<ProgramOp> ops;
  for (const ReduceRow& row : kRows)
    ops.push_back({"", row.name, 1, kEveryVersion, Reduce, kPlainOp});
  ops.push_back({"", "ReduceLogSumExp", 1, kEveryVersion, ReduceLogSumExp, kPlainOp});
  for (const std::string_view name : {"Softmax", "LogSoftmax", "Hardmax"})
    ops.push_back({"", name, 1, kEveryVersion, Softmax, kInPlaceOp});
  ops.push_back({"", "LpNormalization", 1, kEveryVersion, LpNormalization, kPlainOp});
  ops.push_back({"", "CumSum", 11, kEveryVersion, Cumulate, kPlainOp});
  ops.push_back({"", "CumProd", 1, kEveryVersion, Cumulate, kPlainOp});
  ops.push_back({"", "ArgMax", 1, kEveryVersion, ArgExtreme, kPlainOp});
  ops.push_back({"", "ArgMin", 1, kEveryVersion, ArgExtreme, kPlainOp});
  return ops;
}

}  // namespace

std::span<const ProgramOp> ReduceOps() {
  static const std::vector<ProgramOp> ops = MakeOps();
  return ops;
}

}  // namespace tenon

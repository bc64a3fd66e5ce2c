// Operators about shapes, and those that make tensors from numbers (ONNX operators of the same
// names).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

Status WriteIntegers(NodeCall& call, const std::vector<int64_t>& values, Extents shape) {
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kI64, std::move(shape)));
  std::copy(values.begin(), values.end(), out.As<int64_t>());
  return {};
}

Status Shape(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const Extents& shape = call.input(0).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(call.node().Integer("start", 0));
  const int64_t end = std::max(clamp(call.node().Integer("end", rank)), start);
  const std::vector<int64_t> part(shape.begin() + start, shape.begin() + end);
  return WriteIntegers(call, part, {end - start});
}

Status Size(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  return WriteIntegers(call, {call.input(0).count()}, {});
}

// The target list of Reshape (input 1, or the attribute of operator sets before 5) made whole.
Result<Extents> ReshapeTarget(const NodeCall& call) {
  const Extents& from = call.input(0).shape;
  Extents target;
  if (call.Has(1)) {
    TENON_ASSIGN_OR_RETURN(target, call.Integers(1));
  } else if (const auto* list = call.node().Integers("shape")) {
    target = *list;
  }
  const bool zero_copies = call.node().Integer("allowzero", 0) == 0;
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && zero_copies) {
      if (i >= from.size())
        return call.Wrong(fmt::format("the shape {} copies an extent of {}", target, from));
      target[i] = from[i];
    }
    if (target[i] < -1 || (target[i] == -1 && open != nullptr))
      return call.Wrong(fmt::format("the shape {}", target));
    if (target[i] == -1)
      open = &target[i];
    else if (__builtin_mul_overflow(known, target[i], &known))
      return call.Wrong(fmt::format("the shape {}", target));
  }
  if (open != nullptr) {
    const int64_t count = ElementCount(from);
    if (known == 0 || count % known != 0)
      return call.Wrong(fmt::format("{} elements don't divide into {}", count, target));
    *open = count / known;
  }
  return target;
}

Status Reshape(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_ASSIGN_OR_RETURN(Extents target, ReshapeTarget(call));
  return call.Share(std::move(target));
}

Status Flatten(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const Extents& shape = call.input(0).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = call.node().Integer("axis", 1);
  if (axis < -rank || axis > rank)
    return call.Wrong(fmt::format("axis {} of rank {}", axis, rank));
  axis = axis < 0 ? axis + rank : axis;
  int64_t rows = 1;
  for (int64_t d = 0; d < axis; ++d)
    rows *= shape[static_cast<size_t>(d)];
  int64_t columns = 1;
  for (int64_t d = axis; d < rank; ++d)
    columns *= shape[static_cast<size_t>(d)];
  return call.Share({rows, columns});
}

Status Identity(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  return call.Share(call.input(0).shape);
}

// Axes from input 1 (operator set 13) or the attribute; sorted, counted from the front of `rank`.
Result<std::vector<int64_t>> Axes(const NodeCall& call, int64_t rank) {
  std::vector<int64_t> axes;
  if (call.Has(1)) {
    TENON_ASSIGN_OR_RETURN(axes, call.Integers(1));
  } else if (const auto* list = call.node().Integers("axes")) {
    axes = *list;
  }
  for (int64_t& axis : axes) {
    TENON_ASSIGN_OR_RETURN(axis, call.Axis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return call.Wrong(fmt::format("axes {}, one of them twice", axes));
  return axes;
}

Status Squeeze(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const Extents& shape = call.input(0).shape;
  const bool all = !call.Has(1) && call.node().Find("axes") == nullptr;
  TENON_ASSIGN_OR_RETURN(const auto axes, Axes(call, call.input(0).rank()));
  Extents out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool named = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    if (named && shape[d] != 1)
      return call.Wrong(fmt::format("axis {} of {} is not 1", d, shape));
    if (!named && !(all && shape[d] == 1))
      out.push_back(shape[d]);
  }
  return call.Share(std::move(out));
}

Status Unsqueeze(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const Extents& shape = call.input(0).shape;
  size_t added = 0;
  if (call.Has(1))
    added = static_cast<size_t>(call.input(1).count());
  else if (const auto* list = call.node().Integers("axes"))
    added = list->size();
  const size_t rank = shape.size() + added;
  // A rank that no real tensor has.
  if (rank > 64)
    return call.Wrong(fmt::format("a rank of {}", rank));
  TENON_ASSIGN_OR_RETURN(const auto axes, Axes(call, static_cast<int64_t>(rank)));
  Extents out;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) {
    const bool one = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    out.push_back(one ? 1 : shape[next++]);
  }
  return call.Share(std::move(out));
}

// Fills out with the element at `value`.
void Fill(const TensorView& out, const std::byte* value) {
  const int64_t size = ElementBytes(out.type);
  for (int64_t i = 0; i < out.count(); ++i)
    std::memcpy(out.data + i * size, value, static_cast<size_t>(size));
}

Status ConstantOfShape(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_ASSIGN_OR_RETURN(Extents shape, call.Integers(0));
  const ProgramAttribute* found = call.node().Find("value");
  const Constant* value = found == nullptr ? nullptr : std::get_if<Constant>(found);
  if (value != nullptr && ElementCount(value->shape) != 1)
    return call.Wrong("a value of one element expected");
  const ElementType type = value == nullptr ? ElementType::kF32 : value->type;
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, std::move(shape)));
  const std::byte zero[8] = {};
  Fill(out, value == nullptr ? zero : value->bytes.data());
  return {};
}

Status ConstantKernel(NodeCall& call) {
  const ProgramNode& node = call.node();
  if (const ProgramAttribute* found = node.Find("value")) {
    const Constant* value = std::get_if<Constant>(found);
    if (value == nullptr)
      return call.Wrong("a value that is no tensor");
    TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, value->type, value->shape));
    if (!value->bytes.empty())
      std::memcpy(out.data, value->bytes.data(), value->bytes.size());
    return {};
  }
  if (const auto* list = node.Integers("value_ints"))
    return WriteIntegers(call, *list, {static_cast<int64_t>(list->size())});
  if (node.Find("value_int") != nullptr)
    return WriteIntegers(call, {node.Integer("value_int", 0)}, {});
  if (const auto* list = node.Floats("value_floats")) {
    TENON_ASSIGN_OR_RETURN(const TensorView out,
                           call.Output(0, ElementType::kF32, {static_cast<int64_t>(list->size())}));
    std::copy(list->begin(), list->end(), out.As<float>());
    return {};
  }
  if (node.Find("value_float") != nullptr) {
    TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, ElementType::kF32, {}));
    *out.As<float>() = node.Float("value_float", 0.0F);
    return {};
  }
  return call.NotSupported("a constant of strings or a sparse one");
}

Status Range(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const ElementType type = call.input(0).type;
  for (size_t i = 0; i < 3; ++i) {
    if (call.input(i).count() != 1 || call.input(i).type != type)
      return call.Wrong("three scalars of one type expected");
  }
  double numbers[3] = {};
  for (size_t i = 0; i < 3; ++i)
    LoadDoubles(type, call.input(i).data, 1, &numbers[i]);
  const double steps = std::ceil((numbers[1] - numbers[0]) / numbers[2]);
  constexpr double kMost = 1e12;
  if (!(std::fabs(steps) < kMost))
    return call.Wrong(fmt::format("a range of {} steps", steps));
  const auto count = static_cast<int64_t>(std::max(steps, 0.0));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, {count}));
  for (int64_t i = 0; i < count; ++i) {
    const double value = numbers[0] + static_cast<double>(i) * numbers[2];
    StoreDoubles(type, &value, 1, out.data + i * ElementBytes(type));
  }
  return {};
}

// Copies `from`, broadcast, to `out`.
void CopyBroadcast(const TensorView& from, const TensorView& out) {
  const auto size = ElementBytes(from.type);
  const RowWalk walk(out.shape,
                     {BroadcastStrides(from.shape, out.shape), ContiguousStrides(out.shape)});
  walk.ForEachRow([&](const int64_t* o) {
    const std::byte* source = from.data + o[0] * size;
    std::byte* target = out.data + o[1] * size;
    if (walk.inner_stride(0) == 1 && walk.inner_stride(1) == 1) {
      std::memcpy(target, source, static_cast<size_t>(walk.inner() * size));
      return;
    }
    for (int64_t i = 0; i < walk.inner(); ++i)
      std::memcpy(target + i * walk.inner_stride(1) * size,
                  source + i * walk.inner_stride(0) * size, static_cast<size_t>(size));
  });
}

Status Expand(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TENON_ASSIGN_OR_RETURN(const Extents wanted, call.Integers(1));
  auto shape = BroadcastShape(call.input(0).shape, wanted);
  if (!shape.ok())
    return call.Wrong(shape.error().message);
  const TensorView from = call.input(0);
  if (*shape == from.shape)
    return call.Share(std::move(*shape));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, from.type, std::move(*shape)));
  CopyBroadcast(from, out);
  return {};
}

Status EyeLike(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView from = call.input(0);
  if (from.rank() != 2)
    return call.Wrong("a matrix expected");
  const int64_t to = call.node().Integer("dtype", static_cast<int64_t>(from.type));
  if (to < 1 || to >= kElementTypeCount || ElementBytes(static_cast<ElementType>(to)) == 0)
    return call.NotSupported("an element type");
  const auto type = static_cast<ElementType>(to);
  const int64_t k = call.node().Integer("k", 0);
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, from.shape));
  for (int64_t r = 0; r < from.shape[0]; ++r) {
    for (int64_t c = 0; c < from.shape[1]; ++c) {
      const double value = c - r == k ? 1.0 : 0.0;
      StoreDoubles(type, &value, 1, out.data + (r * from.shape[1] + c) * ElementBytes(type));
    }
  }
  return {};
}

// Inference: the input itself, and a mask of ones.
Status Dropout(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  if (call.Has(2)) {
    TENON_ASSIGN_OR_RETURN(const auto training, call.Integers(2));
    double ratio = 0.5;
    if (call.Has(1)) {
      TENON_ASSIGN_OR_RETURN(const auto ratios, call.Numbers(1));
      ratio = ratios.empty() ? ratio : ratios[0];
    }
    if (!training.empty() && training[0] != 0 && ratio != 0.0)
      return call.NotSupported("training mode");
  }
  const Extents shape = call.input(0).shape;
  if (call.Wants(1)) {
    const ElementType type = call.version() < 10 ? call.input(0).type : ElementType::kBool;
    TENON_ASSIGN_OR_RETURN(const TensorView mask, call.Output(1, type, shape));
    const double one = 1.0;
    for (int64_t i = 0; i < mask.count(); ++i)
      StoreDoubles(type, &one, 1, mask.data + i * ElementBytes(type));
  }
  return call.Share(shape);
}

constexpr ProgramOp kOps[] = {
    {"", "Shape", 1, kEveryVersion, Shape, kPlainOp},
    {"", "Size", 1, kEveryVersion, Size, kPlainOp},
    {"", "Reshape", 1, kEveryVersion, Reshape, kViewOp},
    {"", "Flatten", 1, kEveryVersion, Flatten, kViewOp},
    {"", "Identity", 1, kEveryVersion, Identity, kViewOp},
    {"", "Squeeze", 1, kEveryVersion, Squeeze, kViewOp},
    {"", "Unsqueeze", 1, kEveryVersion, Unsqueeze, kViewOp},
    {"", "ConstantOfShape", 9, kEveryVersion, ConstantOfShape, kPlainOp},
    {"", "Constant", 1, kEveryVersion, ConstantKernel, kPlainOp},
    {"", "Range", 11, kEveryVersion, Range, kPlainOp},
    {"", "Expand", 8, kEveryVersion, Expand, kPlainOp},
    {"", "EyeLike", 9, kEveryVersion, EyeLike, kPlainOp},
    {"", "Dropout", 7, kEveryVersion, Dropout, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> ShapeOps() {
  return kOps;
}

}  // namespace tenon

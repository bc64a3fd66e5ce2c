// Operators that take or set elements by indices that are tensors (ONNX operators of the same
// names).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

// Indices of input `i` into an extent, negative ones counted from the end, each checked.
Result<std::vector<int64_t>> ReadIndices(const NodeCall& call, size_t i, int64_t extent) {
  const TensorView& view = call.input(i);
  if (!IsInteger(view.type))
    return call.Wrong("indices that are no integers");
  std::vector<int64_t> out(static_cast<size_t>(view.count()));
  LoadIntegers(view.type, view.data, view.count(), out.data());
  for (int64_t& index : out) {
    if (index < -extent || index >= extent)
      return call.Wrong(fmt::format("index {} of an extent of {}", index, extent));
    index = index < 0 ? index + extent : index;
  }
  return out;
}

int64_t Product(Extents::const_iterator begin, Extents::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

Status Gather(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", 0), x.rank()));
  const auto at = x.shape.begin() + axis;
  TENON_ASSIGN_OR_RETURN(const auto indices, ReadIndices(call, 1, *at));
  Extents shape(x.shape.begin(), at);
  shape.insert(shape.end(), call.input(1).shape.begin(), call.input(1).shape.end());
  shape.insert(shape.end(), at + 1, x.shape.end());
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, std::move(shape)));
  const int64_t inner = Product(at + 1, x.shape.end()) * ElementBytes(x.type);
  std::byte* target = out.data;
  for (int64_t o = 0; inner > 0 && o < Product(x.shape.begin(), at); ++o) {
    for (const int64_t index : indices) {
      std::memcpy(target, x.data + (o * *at + index) * inner, static_cast<size_t>(inner));
      target += inner;
    }
  }
  return {};
}

// Visits all positions of the indices tensor (input 1): visit(position in it, offset in `shape`
// where the index along `axis` replaces the position's own).
template <class Visit>
Status ForElementIndices(const NodeCall& call, const Extents& shape, int64_t axis, Visit visit) {
  const TensorView& view = call.input(1);
  if (view.shape.size() != shape.size())
    return call.Wrong(fmt::format("indices {} for {}", view.shape, shape));
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) != axis && view.shape[d] > shape[d])
      return call.Wrong(fmt::format("indices {} for {}", view.shape, shape));
  }
  TENON_ASSIGN_OR_RETURN(const auto indices,
                         ReadIndices(call, 1, shape[static_cast<size_t>(axis)]));
  const Extents strides = ContiguousStrides(shape);
  std::vector<int64_t> index(shape.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    int64_t offset = indices[i] * strides[static_cast<size_t>(axis)];
    for (size_t d = 0; d < shape.size(); ++d)
      offset += static_cast<int64_t>(d) == axis ? 0 : index[d] * strides[d];
    visit(static_cast<int64_t>(i), offset);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == view.shape[d];)
      index[d] = 0;
  }
  return {};
}

Status GatherElements(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", 0), x.rank()));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, call.input(1).shape));
  const int64_t size = ElementBytes(x.type);
  return ForElementIndices(call, x.shape, axis, [&](int64_t i, int64_t offset) {
    std::memcpy(out.data + i * size, x.data + offset * size, static_cast<size_t>(size));
  });
}

// What a scatter does with an element that is there: replaces it or combines.
void Combine(std::string_view reduction, ElementType type, std::byte* target,
             const std::byte* update) {
  const int64_t size = ElementBytes(type);
  if (reduction == "none") {
    std::memcpy(target, update, static_cast<size_t>(size));
    return;
  }
  const auto combine = [&](auto a, auto b) {
    if (reduction == "add")
      return a + b;
    if (reduction == "mul")
      return a * b;
    return reduction == "max" ? std::max(a, b) : std::min(a, b);
  };
  if (IsFloat(type)) {
    double a = 0.0;
    double b = 0.0;
    LoadDoubles(type, target, 1, &a);
    LoadDoubles(type, update, 1, &b);
    a = combine(a, b);
    StoreDoubles(type, &a, 1, target);
    return;
  }
  int64_t a = 0;
  int64_t b = 0;
  LoadIntegers(type, target, 1, &a);
  LoadIntegers(type, update, 1, &b);
  // In unsigned arithmetic, which wraps; the order of max and min is that of signed types.
  if (reduction == "add" || reduction == "mul")
    a = static_cast<int64_t>(combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  else
    a = combine(a, b);
  StoreIntegers(type, &a, 1, target);
}

Result<TensorView> CopyOfFirst(NodeCall& call) {
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(TensorView out, call.Output(0, x.type, x.shape));
  if (out.data != x.data && x.bytes() > 0)
    std::memcpy(out.data, x.data, static_cast<size_t>(x.bytes()));
  return out;
}

Status ScatterElements(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const TensorView updates = call.input(2);
  if (updates.shape != call.input(1).shape || updates.type != call.input(0).type)
    return call.Wrong("updates of the indices' shape and the data's type expected");
  const std::string_view reduction = call.node().Text("reduction", "none");
  TENON_ASSIGN_OR_RETURN(const TensorView out, CopyOfFirst(call));
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", 0), out.rank()));
  const int64_t size = ElementBytes(out.type);
  return ForElementIndices(call, out.shape, axis, [&](int64_t i, int64_t offset) {
    Combine(reduction, out.type, out.data + offset * size, updates.data + i * size);
  });
}

// GatherND and ScatterND: each row of the indices is a place in the first dimensions of `shape`,
// after `batch` dimensions that both have.
struct NdPlaces {
  std::vector<int64_t> offsets;  // in elements
  int64_t slice = 1;             // elements at each place
  Extents outer;                 // indices' shape without the last dimension
  Extents rest;                  // the slices' shape
};

Result<NdPlaces> ReadPlaces(const NodeCall& call, const Extents& shape, int64_t batch) {
  const TensorView& view = call.input(1);
  if (!IsInteger(view.type) || view.rank() < 1 || batch < 0 || batch >= view.rank() ||
      batch > static_cast<int64_t>(shape.size()))
    return call.Wrong("indices of rank 1 at least and of an integer type expected");
  const int64_t depth = view.shape.back();
  if (depth + batch > static_cast<int64_t>(shape.size()))
    return call.Wrong(fmt::format("indices {} for {}", view.shape, shape));
  for (int64_t d = 0; d < batch; ++d) {
    if (view.shape[static_cast<size_t>(d)] != shape[static_cast<size_t>(d)])
      return call.Wrong(fmt::format("indices {} for {}", view.shape, shape));
  }
  NdPlaces places;
  places.outer.assign(view.shape.begin(), view.shape.end() - 1);
  places.rest.assign(shape.begin() + batch + depth, shape.end());
  places.slice = ElementCount(places.rest);
  const Extents strides = ContiguousStrides(shape);
  const int64_t count = ElementCount(places.outer);
  const int64_t batches = Product(shape.begin(), shape.begin() + batch);
  const int64_t each = batches == 0 ? 0 : Product(shape.begin() + batch, shape.end());
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = i / std::max<int64_t>(count / std::max<int64_t>(batches, 1), 1) * each;
    for (int64_t j = 0; j < depth; ++j) {
      int64_t index = 0;
      LoadIntegers(view.type, view.data + (i * depth + j) * ElementBytes(view.type), 1, &index);
      const int64_t extent = shape[static_cast<size_t>(batch + j)];
      if (index < -extent || index >= extent)
        return call.Wrong(fmt::format("index {} of an extent of {}", index, extent));
      offset += (index < 0 ? index + extent : index) * strides[static_cast<size_t>(batch + j)];
    }
    places.offsets.push_back(offset);
  }
  return places;
}

Status GatherNd(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const NdPlaces places,
                         ReadPlaces(call, x.shape, call.node().Integer("batch_dims", 0)));
  Extents shape = places.outer;
  shape.insert(shape.end(), places.rest.begin(), places.rest.end());
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, std::move(shape)));
  const int64_t size = ElementBytes(x.type);
  const int64_t bytes = places.slice * size;
  for (size_t i = 0; bytes > 0 && i < places.offsets.size(); ++i)
    std::memcpy(out.data + static_cast<int64_t>(i) * bytes, x.data + places.offsets[i] * size,
                static_cast<size_t>(bytes));
  return {};
}

Status ScatterNd(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const std::string_view reduction = call.node().Text("reduction", "none");
  const TensorView updates = call.input(2);
  TENON_ASSIGN_OR_RETURN(const NdPlaces places, ReadPlaces(call, call.input(0).shape, 0));
  const auto count = static_cast<int64_t>(places.offsets.size());
  if (updates.count() != count * places.slice || updates.type != call.input(0).type)
    return call.Wrong("updates of another size or type than the indices need");
  TENON_ASSIGN_OR_RETURN(const TensorView out, CopyOfFirst(call));
  const int64_t size = ElementBytes(out.type);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < places.slice; ++j)
      Combine(reduction, out.type, out.data + (places.offsets[static_cast<size_t>(i)] + j) * size,
              updates.data + (i * places.slice + j) * size);
  }
  return {};
}

Status OneHot(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  TENON_ASSIGN_OR_RETURN(const auto depths, call.Numbers(1));
  const TensorView indices = call.input(0);
  const TensorView values = call.input(2);
  if (depths.size() != 1 || !(depths[0] >= 1.0 && depths[0] < 1e9) || values.count() != 2)
    return call.Wrong("one depth and two values expected");
  const auto depth = static_cast<int64_t>(depths[0]);
  TENON_ASSIGN_OR_RETURN(const int64_t axis,
                         call.Axis(call.node().Integer("axis", -1), indices.rank() + 1));
  Extents shape = indices.shape;
  shape.insert(shape.begin() + axis, depth);
  const int64_t inner = Product(shape.begin() + axis + 1, shape.end());
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, values.type, std::move(shape)));
  const int64_t size = ElementBytes(values.type);
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t at = i / (inner * depth) * inner + i % inner;
    double index = 0.0;
    LoadDoubles(indices.type, indices.data + at * ElementBytes(indices.type), 1, &index);
    index = index < 0.0 ? index + static_cast<double>(depth) : index;
    const bool hot = index == static_cast<double>(i / inner % depth);
    std::memcpy(out.data + i * size, values.data + (hot ? size : 0), static_cast<size_t>(size));
  }
  return {};
}

Status Compress(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  TensorView x = call.input(0);
  const TensorView condition = call.input(1);
  const bool flat = call.node().Find("axis") == nullptr;
  if (flat)
    x.shape = {x.count()};
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", 0), x.rank()));
  const auto at = x.shape.begin() + axis;
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < std::min(condition.count(), *at); ++i) {
    if (condition.data[i] != std::byte{0})
      kept.push_back(i);
  }
  Extents shape = x.shape;
  shape[static_cast<size_t>(axis)] = static_cast<int64_t>(kept.size());
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, std::move(shape)));
  const int64_t inner = Product(at + 1, x.shape.end()) * ElementBytes(x.type);
  std::byte* target = out.data;
  for (int64_t o = 0; inner > 0 && o < Product(x.shape.begin(), at); ++o) {
    for (const int64_t index : kept) {
      std::memcpy(target, x.data + (o * *at + index) * inner, static_cast<size_t>(inner));
      target += inner;
    }
  }
  return {};
}

Status NonZero(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.count(); ++i) {
    double value = 0.0;
    LoadDoubles(x.type, x.data + i * ElementBytes(x.type), 1, &value);
    if (value != 0.0)
      found.push_back(i);
  }
  const auto count = static_cast<int64_t>(found.size());
  TENON_ASSIGN_OR_RETURN(const TensorView out,
                         call.Output(0, ElementType::kI64, {x.rank(), count}));
  const Extents strides = ContiguousStrides(x.shape);
  for (int64_t d = 0; d < x.rank(); ++d) {
    for (int64_t i = 0; i < count; ++i)
      out.As<int64_t>()[d * count + i] = found[static_cast<size_t>(i)] /
                                         strides[static_cast<size_t>(d)] %
                                         x.shape[static_cast<size_t>(d)];
  }
  return {};
}

Status ReverseSequence(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  const int64_t batch_axis = call.node().Integer("batch_axis", 1);
  const int64_t time_axis = call.node().Integer("time_axis", 0);
  if (x.rank() < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || time_axis < 0)
    return call.Wrong("batch and time in the first two dimensions expected");
  TENON_ASSIGN_OR_RETURN(const auto lengths, call.Integers(1));
  const int64_t batches = x.shape[static_cast<size_t>(batch_axis)];
  const int64_t times = x.shape[static_cast<size_t>(time_axis)];
  if (static_cast<int64_t>(lengths.size()) != batches)
    return call.Wrong("one length for each batch expected");
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  const int64_t inner = Product(x.shape.begin() + 2, x.shape.end()) * ElementBytes(x.type);
  const Extents steps = time_axis == 0 ? Extents{batches, 1} : Extents{1, times};
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    if (length < 0 || length > times)
      return call.Wrong(fmt::format("a length of {}, {} at most", length, times));
    for (int64_t t = 0; inner > 0 && t < times; ++t) {
      const int64_t from = t < length ? length - 1 - t : t;
      std::memcpy(out.data + (t * steps[0] + b * steps[1]) * inner,
                  x.data + (from * steps[0] + b * steps[1]) * inner, static_cast<size_t>(inner));
    }
  }
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "Gather", 1, kEveryVersion, Gather, kPlainOp},
    {"", "GatherElements", 11, kEveryVersion, GatherElements, kPlainOp},
    {"", "GatherND", 11, kEveryVersion, GatherNd, kPlainOp},
    {"", "ScatterElements", 11, kEveryVersion, ScatterElements, kPlainOp},
    {"", "Scatter", 9, kEveryVersion, ScatterElements, kPlainOp},
    {"", "ScatterND", 11, kEveryVersion, ScatterNd, kPlainOp},
    {"", "OneHot", 9, kEveryVersion, OneHot, kPlainOp},
    {"", "Compress", 9, kEveryVersion, Compress, kPlainOp},
    {"", "NonZero", 9, kEveryVersion, NonZero, kPlainOp},
    {"", "ReverseSequence", 10, kEveryVersion, ReverseSequence, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> IndexingOps() {
  return kOps;
}

}  // namespace tenon

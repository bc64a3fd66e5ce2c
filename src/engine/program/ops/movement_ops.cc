// Operators that move elements by a rule of their indices (ONNX operators of the same names).
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

// out[index] = from[sum of index * strides + start], element by element of `size` bytes.
void CopyStrided(const TensorView& out, const std::byte* from, Extents strides) {
  const int64_t size = ElementBytes(out.type);
  const RowWalk walk(out.shape, {std::move(strides), ContiguousStrides(out.shape)});
  const int64_t step = walk.inner_stride(0);
  walk.ForEachRow([&](const int64_t* o) {
    const std::byte* source = from + o[0] * size;
    std::byte* target = out.data + o[1] * size;
    if (step == 1) {
      std::memcpy(target, source, static_cast<size_t>(walk.inner() * size));
    } else if (size == 4) {
      for (int64_t i = 0; i < walk.inner(); ++i)
        std::memcpy(target + i * 4, source + i * step * 4, 4);
    } else {
      for (int64_t i = 0; i < walk.inner(); ++i)
        std::memcpy(target + i * size, source + i * step * size, static_cast<size_t>(size));
    }
  });
}

Status Transpose(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  std::vector<int64_t> order(x.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (const auto* list = call.node().Integers("perm"))
    order = *list;
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i) || sorted.size() != x.shape.size())
      return call.Wrong(fmt::format("perm {} of rank {}", order, x.rank()));
  }
  const Extents own = ContiguousStrides(x.shape);
  Extents shape;
  Extents strides;
  for (const int64_t d : order) {
    shape.push_back(x.shape[static_cast<size_t>(d)]);
    strides.push_back(own[static_cast<size_t>(d)]);
  }
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, std::move(shape)));
  CopyStrided(out, x.data, std::move(strides));
  return {};
}

// Products of the extents before and from `axis` on.
int64_t Outer(const Extents& shape, size_t axis) {
  return std::accumulate(shape.begin(), shape.begin() + static_cast<int64_t>(axis), int64_t{1},
                         std::multiplies<>());
}
int64_t Inner(const Extents& shape, size_t axis) {
  return std::accumulate(shape.begin() + static_cast<int64_t>(axis), shape.end(), int64_t{1},
                         std::multiplies<>());
}

Status Concat(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(std::max<size_t>(call.input_count(), 1)));
  const TensorView first = call.input(0);
  TENON_ASSIGN_OR_RETURN(const int64_t signed_axis,
                         call.Axis(call.node().Integer("axis", 1), first.rank()));
  const auto axis = static_cast<size_t>(signed_axis);
  Extents shape = first.shape;
  shape[axis] = 0;
  for (size_t i = 0; i < call.input_count(); ++i) {
    Extents other = call.input(i).shape;
    if (other.size() != shape.size() || call.input(i).type != first.type)
      return call.Wrong(fmt::format("shapes {} and {} or their types differ", first.shape, other));
    shape[axis] += other[axis];
    other[axis] = first.shape[axis];
    if (other != first.shape)
      return call.Wrong(fmt::format("shapes {} and {}", first.shape, call.input(i).shape));
  }
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, first.type, shape));
  const int64_t size = ElementBytes(first.type);
  const int64_t row = Inner(shape, axis) * size;
  int64_t at = 0;
  for (size_t i = 0; i < call.input_count(); ++i) {
    const TensorView& part = call.input(i);
    const int64_t bytes = Inner(part.shape, axis) * size;
    for (int64_t r = 0; bytes > 0 && r < Outer(shape, axis); ++r)
      std::memcpy(out.data + r * row + at, part.data + r * bytes, static_cast<size_t>(bytes));
    at += bytes;
  }
  return {};
}

// Sizes from input 1, the attribute, or even parts.
Result<std::vector<int64_t>> SplitSizes(const NodeCall& call, int64_t extent) {
  std::vector<int64_t> sizes;
  if (call.Has(1)) {
    TENON_ASSIGN_OR_RETURN(sizes, call.Integers(1));
  } else if (const auto* list = call.node().Integers("split")) {
    sizes = *list;
  } else {
    const auto parts = static_cast<int64_t>(call.output_count());
    const int64_t each = (extent + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(extent - i * each, 0, each));
  }
  int64_t left = extent;
  for (const int64_t size : sizes) {
    if (size < 0 || size > left)
      return call.Wrong(fmt::format("sizes {} of an extent of {}", sizes, extent));
    left -= size;
  }
  if (left != 0 || sizes.size() != call.output_count())
    return call.Wrong(fmt::format("sizes {} of an extent of {}", sizes, extent));
  return sizes;
}

Status Split(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(call.node().Integer("axis", 0), x.rank()));
  const auto d = static_cast<size_t>(axis);
  TENON_ASSIGN_OR_RETURN(const auto sizes, SplitSizes(call, x.shape[d]));
  const int64_t size = ElementBytes(x.type);
  const int64_t row = Inner(x.shape, d) * size;
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Extents shape = x.shape;
    shape[d] = sizes[i];
    const int64_t bytes = Inner(shape, d) * size;
    TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(i, x.type, std::move(shape)));
    for (int64_t r = 0; bytes > 0 && r < Outer(x.shape, d); ++r)
      std::memcpy(out.data + r * bytes, x.data + r * row + at, static_cast<size_t>(bytes));
    at += bytes;
  }
  return {};
}

// Where a slice of one dimension starts, its step and its length.
struct SliceRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

SliceRange ClampSlice(int64_t start, int64_t end, int64_t step, int64_t extent) {
  const int64_t low = step < 0 ? -1 : 0;
  const int64_t high = step < 0 ? extent - 1 : extent;
  const auto clamp = [&](int64_t at) {
    return std::clamp(at < 0 ? std::max<int64_t>(at + extent, low) : at, low, high);
  };
  SliceRange range{clamp(start), step, 0};
  // INT64_MIN as an end means "to the front" for negative steps; at + extent does not overflow.
  const int64_t last = clamp(end);
  const int64_t span = step < 0 ? range.start - last : last - range.start;
  const int64_t size = step < 0 ? -step : step;
  range.count = span > 0 ? (span - 1) / size + 1 : 0;
  return range;
}

struct SliceLists {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  std::vector<int64_t> steps;
};

Result<SliceLists> ReadSlice(const NodeCall& call) {
  SliceLists lists;
  if (call.version() < 10) {
    const auto* starts = call.node().Integers("starts");
    const auto* ends = call.node().Integers("ends");
    const auto* axes = call.node().Integers("axes");
    if (starts == nullptr || ends == nullptr)
      return call.Wrong("starts and ends are missing");
    lists.starts = *starts;
    lists.ends = *ends;
    lists.axes = axes == nullptr ? std::vector<int64_t>() : *axes;
  } else {
    TENON_RETURN_IF_ERROR(call.Need(3));
    TENON_ASSIGN_OR_RETURN(lists.starts, call.Integers(1));
    TENON_ASSIGN_OR_RETURN(lists.ends, call.Integers(2));
    if (call.Has(3)) {
      TENON_ASSIGN_OR_RETURN(lists.axes, call.Integers(3));
    }
    if (call.Has(4)) {
      TENON_ASSIGN_OR_RETURN(lists.steps, call.Integers(4));
    }
  }
  const size_t count = lists.starts.size();
  if (lists.axes.empty()) {
    lists.axes.resize(count);
    std::iota(lists.axes.begin(), lists.axes.end(), 0);
  }
  if (lists.steps.empty())
    lists.steps.assign(count, 1);
  if (lists.ends.size() != count || lists.axes.size() != count || lists.steps.size() != count)
    return call.Wrong("starts, ends, axes and steps of different lengths");
  return lists;
}

Status Slice(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_ASSIGN_OR_RETURN(const SliceLists lists, ReadSlice(call));
  const TensorView x = call.input(0);
  Extents shape = x.shape;
  Extents strides = ContiguousStrides(x.shape);
  int64_t offset = 0;
  for (size_t i = 0; i < lists.starts.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(lists.axes[i], x.rank()));
    const auto d = static_cast<size_t>(axis);
    if (lists.steps[i] == 0 || lists.steps[i] == INT64_MIN)
      return call.Wrong(fmt::format("a step of {}", lists.steps[i]));
    const SliceRange range = ClampSlice(lists.starts[i], lists.ends[i], lists.steps[i], x.shape[d]);
    shape[d] = range.count;
    if (range.count > 0)
      offset += range.start * strides[d];
    // With one element the step is not used and may be huge.
    strides[d] *= range.count > 1 ? range.step : 0;
  }
  if (shape == x.shape && offset == 0 && strides == ContiguousStrides(x.shape))
    return call.Share(std::move(shape));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, std::move(shape)));
  CopyStrided(out, x.data + offset * ElementBytes(x.type), std::move(strides));
  return {};
}

Status Tile(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(2));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const auto repeats, call.Integers(1));
  if (repeats.size() != x.shape.size())
    return call.Wrong(fmt::format("repeats {} of rank {}", repeats, x.rank()));
  // [a, b] tiled (r, s) is [r, a, s, b] with the new dimensions repeated.
  Extents shape;
  Extents whole;
  Extents strides;
  const Extents own = ContiguousStrides(x.shape);
  for (size_t d = 0; d < repeats.size(); ++d) {
    int64_t extent = 0;
    if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], x.shape[d], &extent))
      return call.Wrong(fmt::format("repeats {}", repeats));
    whole.push_back(extent);
    shape.insert(shape.end(), {repeats[d], x.shape[d]});
    strides.insert(strides.end(), {0, own[d]});
  }
  TENON_ASSIGN_OR_RETURN(TensorView out, call.Output(0, x.type, std::move(whole)));
  out.shape = std::move(shape);
  CopyStrided(out, x.data, std::move(strides));
  return {};
}

// The block rearrangements: as a transposition of a tensor of rank 6.
Status MoveBlocks(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  const int64_t b = call.node().Integer("blocksize", 0);
  if (x.rank() != 4 || b < 1 || b > 4096)
    return call.Wrong("a tensor of rank 4 and a blocksize expected");
  const bool to_depth = call.node().op == "SpaceToDepth";
  const bool crd = call.node().Text("mode", "DCR") == "CRD";
  const int64_t n = x.shape[0];
  const int64_t c = to_depth ? x.shape[1] : x.shape[1] / (b * b);
  const int64_t h = to_depth ? x.shape[2] / b : x.shape[2];
  const int64_t w = to_depth ? x.shape[3] / b : x.shape[3];
  if (to_depth ? h * b != x.shape[2] || w * b != x.shape[3] : c * b * b != x.shape[1])
    return call.Wrong(fmt::format("blocks of {} don't divide {}", b, x.shape));
  Extents from;
  std::vector<size_t> order;
  Extents shape;
  if (to_depth) {
    from = {n, c, h, b, w, b};
    order = crd ? std::vector<size_t>{0, 1, 3, 5, 2, 4} : std::vector<size_t>{0, 3, 5, 1, 2, 4};
    shape = {n, c * b * b, h, w};
  } else {
    from = crd ? Extents{n, c, b, b, h, w} : Extents{n, b, b, c, h, w};
    order = crd ? std::vector<size_t>{0, 1, 4, 2, 5, 3} : std::vector<size_t>{0, 3, 4, 1, 5, 2};
    shape = {n, c, h * b, w * b};
  }
  TENON_ASSIGN_OR_RETURN(TensorView out, call.Output(0, x.type, std::move(shape)));
  const Extents own = ContiguousStrides(from);
  Extents strides;
  out.shape.clear();
  for (const size_t d : order) {
    out.shape.push_back(from[d]);
    strides.push_back(own[d]);
  }
  CopyStrided(out, x.data, std::move(strides));
  return {};
}

Status Trilu(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  if (x.rank() < 2)
    return call.Wrong("matrices expected");
  int64_t k = 0;
  if (call.Has(1)) {
    TENON_ASSIGN_OR_RETURN(const auto list, call.Integers(1));
    k = list.empty() ? 0 : std::clamp<int64_t>(list[0], -(int64_t{1} << 40), int64_t{1} << 40);
  }
  const bool upper = call.node().Integer("upper", 1) != 0;
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  const int64_t columns = x.shape.back();
  const int64_t rows = x.shape[x.shape.size() - 2];
  const int64_t size = ElementBytes(x.type);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t across = i % columns - i / columns % rows;
    const bool keep = upper ? across >= k : across <= k;
    if (keep)
      std::memcpy(out.data + i * size, x.data + i * size, static_cast<size_t>(size));
    else
      std::memset(out.data + i * size, 0, static_cast<size_t>(size));
  }
  return {};
}

// The pads of each dimension, front and back, from inputs or attributes.
struct PadSizes {
  std::vector<int64_t> front;
  std::vector<int64_t> back;
};

Result<PadSizes> ReadPads(const NodeCall& call, int64_t rank) {
  std::vector<int64_t> pads;
  if (call.Has(1)) {
    TENON_ASSIGN_OR_RETURN(pads, call.Integers(1));
  } else if (const auto* list = call.node().Integers("pads")) {
    pads = *list;
  }
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (call.Has(3)) {
    TENON_ASSIGN_OR_RETURN(axes, call.Integers(3));
  }
  if (pads.size() != axes.size() * 2)
    return call.Wrong(fmt::format("pads {} for {} axes", pads, axes.size()));
  PadSizes sizes;
  sizes.front.resize(static_cast<size_t>(rank));
  sizes.back.resize(static_cast<size_t>(rank));
  for (size_t i = 0; i < axes.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const int64_t axis, call.Axis(axes[i], rank));
    for (const int64_t pad : {pads[i], pads[i + axes.size()]}) {
      if (pad < -(int64_t{1} << 40) || pad > int64_t{1} << 40)
        return call.Wrong(fmt::format("pads {}", pads));
    }
    sizes.front[static_cast<size_t>(axis)] = pads[i];
    sizes.back[static_cast<size_t>(axis)] = pads[i + axes.size()];
  }
  return sizes;
}

// The index that a padded one stands for; -1: the constant.
int64_t PadSource(std::string_view mode, int64_t at, int64_t extent) {
  if (at >= 0 && at < extent)
    return at;
  if (mode == "edge")
    return at < 0 ? 0 : extent - 1;
  if (mode == "wrap")
    return ((at % extent) + extent) % extent;
  if (mode == "reflect") {
    const int64_t period = std::max<int64_t>(2 * (extent - 1), 1);
    const int64_t folded = ((at % period) + period) % period;
    return folded < extent ? folded : period - folded;
  }
  return -1;
}

Status Pad(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const PadSizes pads, ReadPads(call, x.rank()));
  const std::string_view mode = call.node().Text("mode", "constant");
  Extents shape = x.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] = std::max<int64_t>(shape[d] + pads.front[d] + pads.back[d], 0);
    if (mode != "constant" && x.shape[d] == 0 && shape[d] > 0)
      return call.Wrong("an empty dimension is padded");
  }
  const int64_t size = ElementBytes(x.type);
  std::byte value[8] = {};
  if (call.Has(2) && call.input(2).count() == 1 && call.input(2).type == x.type)
    std::memcpy(value, call.input(2).data, static_cast<size_t>(size));
  else if (const double number = double{call.node().Float("value", 0.0F)}; number != 0.0)
    StoreDoubles(x.type, &number, 1, value);
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, shape));
  const Extents own = ContiguousStrides(x.shape);
  std::vector<int64_t> index(shape.size());
  for (int64_t i = 0; i < out.count(); ++i) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t at = PadSource(mode, index[d] - pads.front[d], x.shape[d]);
      inside = inside && at >= 0;
      offset += at * own[d];
    }
    std::memcpy(out.data + i * size, inside ? x.data + offset * size : value,
                static_cast<size_t>(size));
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];)
      index[d] = 0;
  }
  return {};
}

constexpr ProgramOp kOps[] = {
    {"", "Transpose", 1, kEveryVersion, Transpose, kPlainOp},
    {"", "Concat", 4, kEveryVersion, Concat, kPlainOp},
    {"", "Split", 2, kEveryVersion, Split, kPlainOp},
    {"", "Slice", 1, kEveryVersion, Slice, kPlainOp},
    {"", "Tile", 6, kEveryVersion, Tile, kPlainOp},
    {"", "SpaceToDepth", 1, kEveryVersion, MoveBlocks, kPlainOp},
    {"", "DepthToSpace", 1, kEveryVersion, MoveBlocks, kPlainOp},
    {"", "Trilu", 14, kEveryVersion, Trilu, kPlainOp},
    {"", "Pad", 2, kEveryVersion, Pad, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> MovementOps() {
  return kOps;
}

}  // namespace tenon

#include "engine/program/strides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon {

Extents ContiguousStrides(const Extents& shape) {
  Extents strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

Result<Extents> BroadcastShape(const Extents& a, const Extents& b) {
  Extents out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return InvalidArgument(fmt::format("shapes {} and {} don't broadcast", a, b));
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Extents BroadcastStrides(const Extents& shape, const Extents& out) {
  Extents strides(out.size());
  const Extents own = ContiguousStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t from = shape.size() - 1 - i;
    strides[out.size() - 1 - i] = shape[from] == 1 ? 0 : own[from];
  }
  return strides;
}

RowWalk::RowWalk(const Extents& shape, std::vector<Extents> strides) : strides_(strides.size()) {
  // A dimension joins the one before it when every operand steps through both evenly.
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      continue;
    bool joins = !shape_.empty();
    for (size_t i = 0; i < strides.size() && joins; ++i)
      joins = strides_[i].back() == strides[i][d] * shape[d];
    if (joins) {
      shape_.back() *= shape[d];
    } else {
      shape_.push_back(shape[d]);
    }
    for (size_t i = 0; i < strides.size(); ++i) {
      if (joins)
        strides_[i].back() = strides[i][d];
      else
        strides_[i].push_back(strides[i][d]);
    }
  }
  if (shape_.empty()) {
    shape_.push_back(1);
    for (Extents& operand : strides_)
      operand.push_back(0);
  }
  for (size_t d = 0; d + 1 < shape_.size(); ++d)
    rows_ *= shape_[d];
  if (shape_.back() == 0)
    rows_ = 0;
}

}  // namespace tenon

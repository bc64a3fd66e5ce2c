// The median of what a meter kept. Threading: a free function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tenon {

// The upper one of an even number. REQUIRES: not empty.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace tenon

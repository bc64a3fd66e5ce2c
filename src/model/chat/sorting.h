// A stable merge sort that is safe with any `less`: one that throws, and one that is no order at
// all, as NaN makes Python's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tenon::chat {

template <class T, class Less>
void StableSort(std::vector<T>& items, const Less& less) {
  std::vector<T> merged(items);
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t start = 0; start < items.size(); start += 2 * width) {
      const size_t middle = std::min(start + width, items.size());
      const size_t end = std::min(start + 2 * width, items.size());
      size_t left = start;
      size_t right = middle;
      for (size_t at = start; at < end; ++at) {
        const bool from_right = left == middle || (right < end && less(items[right], items[left]));
        merged[at] = items[from_right ? right++ : left++];
      }
    }
    items.swap(merged);
  }
}

}  // namespace tenon::chat

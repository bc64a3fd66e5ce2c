// Candidate: one token that the chain still considers, and the steps that several filters share.
//
// A filter takes the list, shortens or reorders it and leaves at least one candidate. Filters never
// grow a list, so none of them allocates. Threading: values, one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace tenon {

struct Candidate {
  int32_t id = 0;
  float logit = 0.0F;  // finite
  float p = 0.0F;      // set by Softmax
};

using Candidates = std::vector<Candidate>;

// The order of the chain: the higher logit first, and of equal ones the lower id.
inline bool Better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Sets every p to the softmax of the logits over this list. REQUIRES: not empty, logits finite.
void Softmax(std::span<Candidate> candidates);

// logit = (logit - the highest logit) / temperature. Subtracting first keeps the best candidate at
// 0 for any temperature > 0, however small; the others may become -infinity.
void ApplyTemperature(std::span<Candidate> candidates, float temperature);

// Chooses by p with a number `u` from [0, 1): the index of the first candidate at which the running
// sum of p exceeds u times the whole sum. Never a candidate with p = 0. REQUIRES: a p > 0.
size_t Draw(std::span<const Candidate> candidates, double u);

// Shortens `list` to the fewest candidates whose p sum to `mass` or more, taken in the order of
// `before`; to all of them where they don't reach it. At least one stays, and they end up sorted.
// Linear in the list, and sorts only what is kept: the cut is found by splitting where it must lie.
template <class Less>
void KeepFewestReaching(Candidates& list, double mass, Less before) {
  constexpr size_t kSortedAtOnce = 64;  // splitting further costs more than sorting
  constexpr size_t kSplit = 4;          // the cut is mostly near the front
  const auto at = [&](size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto add = [](double sum, const Candidate& c) { return sum + static_cast<double>(c.p); };
  double sum = 0.0;  // of [0, low), which is kept; the cut is in (low, high]
  size_t low = 0;
  size_t high = list.size();
  while (high - low > kSortedAtOnce) {
    const size_t middle = low + (high - low) / kSplit;
    std::nth_element(at(low), at(middle), at(high), before);
    const double upto = std::accumulate(at(low), at(middle), sum, add);
    (upto >= mass ? high : low) = middle;
    sum = upto >= mass ? sum : upto;
  }
  std::sort(at(low), at(high), before);
  do {
    sum = add(sum, list[low++]);
  } while (sum < mass && low < high);
  list.resize(low);
  std::sort(list.begin(), list.end(), before);
}

}  // namespace tenon

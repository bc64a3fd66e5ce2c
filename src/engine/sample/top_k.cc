#include "engine/sample/top_k.h"

#include <limits>

namespace tenon {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

// Logits looked at together, so that a stretch without any candidate costs a vector maximum.
constexpr size_t kStretch = 32;

void SelectAll(std::span<const float> logits, Candidates& out) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNegativeInfinity)
      out.push_back({static_cast<int32_t>(i), logits[i], 0.0F});
  }
}

void KeepBest(size_t k, Candidates& out) {
  const auto middle = out.begin() + static_cast<std::ptrdiff_t>(k);
  std::nth_element(out.begin(), middle - 1, out.end(), Better);
  out.resize(k);
}

bool AnyAbove(std::span<const float> stretch, float threshold) {
  int above = 0;
  for (const float logit : stretch)
    above |= static_cast<int>(logit > threshold);
  return above != 0;
}

// Ids ascend, so a later token that equals the threshold is worse than all that are held: only
// strictly higher ones enter.
class TopKList {
 public:
  TopKList(size_t k, Candidates& out) : k_(k), out_(out) {}

  void Scan(std::span<const float> logits, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (logits[i] > threshold_)
        Add({static_cast<int32_t>(i), logits[i], 0.0F});
    }
  }
  float threshold() const { return threshold_; }

 private:
  void Add(Candidate candidate) {
    out_.push_back(candidate);
    if (out_.size() < 2 * k_)
      return;
    KeepBest(k_, out_);
    threshold_ = out_[k_ - 1].logit;
  }

  size_t k_;
  Candidates& out_;
  float threshold_ = kNegativeInfinity;
};

}  // namespace

void SelectTopK(std::span<const float> logits, size_t k, Candidates& out) {
  out.clear();
  if (k == 0 || k >= logits.size()) {
    SelectAll(logits, out);
    if (k != 0)
      std::sort(out.begin(), out.end(), Better);
    return;
  }
  TopKList list(k, out);
  for (size_t begin = 0; begin < logits.size(); begin += kStretch) {
    const size_t end = std::min(begin + kStretch, logits.size());
    if (AnyAbove(logits.subspan(begin, end - begin), list.threshold()))
      list.Scan(logits, begin, end);
  }
  if (out.size() > k)
    KeepBest(k, out);
  std::sort(out.begin(), out.end(), Better);
}

}  // namespace tenon

#include "engine/sample/xtc.h"

namespace tenon {

void ExcludeTopChoices(Candidates& candidates, float threshold) {
  Softmax(candidates);
  const Candidate* spared = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.p >= threshold && (spared == nullptr || Better(*spared, candidate)))
      spared = &candidate;
  }
  if (spared == nullptr)
    return;
  const int32_t spared_id = spared->id;
  const auto excluded = [&](const Candidate& c) { return c.p >= threshold && c.id != spared_id; };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), excluded),
                   candidates.end());
}

}  // namespace tenon

#include "engine/sample/rejection.h"

#include <algorithm>

#include "base/check.h"

namespace tenon {
namespace {

// The p of `id` in a list that is sorted by id; 0 where it is not in it.
float ProbabilityOf(std::span<const Candidate> by_id, int32_t id) {
  const auto found = std::lower_bound(by_id.begin(), by_id.end(), id,
                                      [](const Candidate& c, int32_t key) { return c.id < key; });
  return found != by_id.end() && found->id == id ? found->p : 0.0F;
}

}  // namespace

Candidate AcceptOrReplace(std::span<const Candidate> p, std::span<const Candidate> q, int32_t guess,
                          RejectionDraws draws) {
  TENON_CHECK(!p.empty());
  Candidates by_id(q.begin(), q.end());
  std::ranges::sort(by_id, {}, &Candidate::id);
  const auto guessed = std::ranges::find(p, guess, &Candidate::id);
  if (guessed != p.end()) {
    // draws.accept < p / q, without the division: q may be tiny.
    const auto bound = static_cast<double>(ProbabilityOf(by_id, guess)) * draws.accept;
    if (bound < static_cast<double>(guessed->p))
      return *guessed;
  }
  Candidates residual(p.begin(), p.end());
  double mass = 0.0;
  for (Candidate& candidate : residual) {
    candidate.p = std::max(0.0F, candidate.p - ProbabilityOf(by_id, candidate.id));
    mass += static_cast<double>(candidate.p);
  }
  // Nothing is left where p and q are equal up to rounding; then p itself is as right.
  const size_t chosen = Draw(mass > 0.0 ? std::span<const Candidate>(residual) : p, draws.residual);
  return p[chosen];
}

}  // namespace tenon

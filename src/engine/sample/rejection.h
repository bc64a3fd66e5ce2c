// Speculative sampling by rejection (Leviathan, Kalman, Matias, "Fast inference from transformers
// via speculative decoding", ICML 2023, arXiv 2211.17192; Chen et al., arXiv 2302.01318).
//
// A guess x drawn from q is accepted with probability min(1, p(x) / q(x)); else the token is drawn
// from the normalised positive part of p - q. The token is then distributed as p, whatever q is.
// Pure. Threading: pure function.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sample/candidate.h"

namespace tenon {

// Two independent numbers in [0, 1).
struct RejectionDraws {
  double accept = 0.0;
  double residual = 0.0;
};

// Returns the chosen candidate of `p`. Both lists have their p set, which sum to about 1; no id
// occurs twice in one. A guess that is not in `p` is never accepted. REQUIRES: p not empty.
Candidate AcceptOrReplace(std::span<const Candidate> p, std::span<const Candidate> q, int32_t guess,
                          RejectionDraws draws);

}  // namespace tenon

// Min-p (Nguyen et al., "Turning up the heat: min-p sampling for creative and coherent LLM
// outputs", arXiv 2407.01082).
#pragma once

#include "engine/sample/candidate.h"

namespace tenon {

// Keeps the candidates with at least min_p times the probability of the best one, in their order;
// looks at the logits only. REQUIRES: not empty.
void MinP(Candidates& candidates, float min_p);

}  // namespace tenon

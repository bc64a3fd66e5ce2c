// Locally typical sampling (Meister, Pimentel, Wiher, Cotterell, "Locally typical sampling", TACL
// 2023, arXiv 2202.00666).
#pragma once

#include "engine/sample/candidate.h"

namespace tenon {

// Keeps the fewest candidates whose probabilities sum to typical_p or more, those first whose
// surprise -ln p is nearest to the entropy of the list. REQUIRES: not empty.
void TypicalP(Candidates& candidates, float typical_p);

}  // namespace tenon

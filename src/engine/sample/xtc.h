// XTC, "exclude top choices" (p-e-w, oobabooga/text-generation-webui pull request 6335).
#pragma once

#include "engine/sample/candidate.h"

namespace tenon {

// Of the candidates with a probability of at least `threshold`, removes all but the least probable
// one; with fewer than two of them nothing changes. Whether a token is treated at all is a draw of
// the caller's. The order of the rest stays. REQUIRES: not empty.
void ExcludeTopChoices(Candidates& candidates, float threshold);

}  // namespace tenon

// Top-p, nucleus sampling (Holtzman, Buys, Du, Forbes, Choi, "The curious case of neural text
// degeneration", ICLR 2020, arXiv 1904.09751).
#pragma once

#include "engine/sample/candidate.h"

namespace tenon {

// Keeps the fewest of the most probable candidates whose p sum to top_p or more, best first; all of
// them where they don't reach it. top_p = 0 keeps the best one. The p are taken as they stand, so
// that a list may be shortened by MinP after Softmax and before this: both keep the best ones of
// one order, so which comes first does not matter, and the shorter list is cheaper to sort.
// REQUIRES: not empty, p set.
void TopP(Candidates& candidates, float top_p);

}  // namespace tenon

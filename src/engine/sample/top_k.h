// Top-k (Fan, Lewis, Dauphin, "Hierarchical neural story generation", ACL 2018): the k tokens with
// the highest logits.
#pragma once

#include <cstddef>
#include <span>

#include "engine/sample/candidate.h"

namespace tenon {

// Fills `out` with the k best tokens of `logits` [vocab], best first, in one pass over the
// vocabulary: a list of 2k candidates is cut to k whenever it is full, and its worst member then
// tells at a glance what the rest has to beat. Tokens of -infinity never enter; k = 0 means all
// others, in the order of their ids. REQUIRES: no NaN.
void SelectTopK(std::span<const float> logits, size_t k, Candidates& out);

}  // namespace tenon

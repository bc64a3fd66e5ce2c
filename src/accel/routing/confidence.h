// How sure a model is of its next token, from its logits: the training-free scores.
//
// Sources: top-1 probability is Chow's rule; normalised entropy is R-Stitch's (arXiv 2507.17307).
// All are turned so that 1 is certain. Pure. Threading: values.
#pragma once

#include <cstdint>
#include <span>

namespace tenon {

struct RowConfidence {
  int32_t best = 0;      // token with the highest logit, of equal ones the lowest
  double top1 = 0.0;     // its probability
  double margin = 0.0;   // less the second one's
  double entropy = 0.0;  // 1 - H / ln V
  double log_sum_exp = 0.0;
};

// REQUIRES: at least two logits, no NaN, one above -infinity.
RowConfidence MeasureConfidence(std::span<const float> logits);

}  // namespace tenon

// Layer-wise refinement: after the levels are chosen, the groups' scales move down the gradient of
// the layer's output error.
//
// The error of one row is e^T H e with e = w - scale * q (H as in quant/input_statistics.h), its
// derivative by a group's scale -2 sum over the group of q (H e). Steps are relative to the scale,
// of a size that falls geometrically; a row keeps the scales that were best. Threading: as the
// engine.
#pragma once

#include "quant/matrix.h"
#include "quant/matrix_engine.h"
#include "quant/quantized_matrix.h"

namespace tenon {

struct RefineOptions {
  int steps = 20;
  float from = 1e-3F;  // size of the first step, relative to a scale
  float to = 1e-5F;    // and of the last
};

// `weights` are the exact ones. Of `h` the lower triangle is read. Formats with super blocks, whose
// scales are no free numbers, stay as they are.
void RefineScales(const Matrix& weights, const Matrix& h, const RefineOptions& options,
                  QuantizedMatrix& levels, MatrixEngine& engine);

}  // namespace tenon

// Operators as a plug-in would bring them, for graphs in tests.
//
//   test.Blend   x [N, D], shift [D] -> x * by + shift; `by` a float, 1 when it is left out
//   test.Halves  x [N, 2 D] -> the left and the right half, [N, D] each
//   test.Odd     x [N, D] -> what its attribute `how` says it does wrong
#pragma once

#include "graph/plugin/plugin_operators.h"

namespace tenon {

const PluginOperators& TestOperators();

}  // namespace tenon

// Random verified graphs made of the patterns that passes look for, with and without the extra
// uses, outputs and mismatches that must stop them.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tenon {

Graph RandomGraph(uint64_t seed);

}  // namespace tenon

// Counts every operator new of the test program.
#pragma once

#include <cstddef>

namespace tenon {

size_t AllocationCount();

}  // namespace tenon

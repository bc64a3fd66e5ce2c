// Read bandwidth of the machine's memory, as a decode step sees it: what its speed is measured by.
//
// Threading: runs on the pool's workers, from the thread that may call ThreadPool::Run.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "hal/thread_pool.h"

namespace tenon {

// The median rate, in bytes a second, of reading a fresh buffer of `bytes` from one end to the
// other by all workers, over `sweeps` sweeps after one that warms up. A buffer that fits the cache
// gives the cache's rate: take the size of the weights. Fails when the memory is refused.
Result<double> ReadBandwidth(int64_t bytes, int sweeps, ThreadPool& pool);

}  // namespace tenon

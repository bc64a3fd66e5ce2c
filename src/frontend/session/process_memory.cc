// This process's memory, from /proc and the limits that hal/topology.h reads.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "frontend/session/model.h"
#include "hal/topology.h"

namespace tenon {

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t PeakResidentBytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t AvailableMemoryBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t available = 0;
  int64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:")
      available = kib * 1024;
  }
  const int64_t limit = ReadTopology().memory_limit;
  if (limit > 0)
    available = std::min(available, limit - ResidentBytes());
  return std::max<int64_t>(available, 0);
}

}  // namespace tenon

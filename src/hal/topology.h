// What the machine offers to this process: CPUs, their classes, memory nodes and limits.
//
// Linux: sched affinity, /sys/devices/system/cpu, cgroup v1 and v2. All readers take a root folder
// so that tests can give them a made-up machine. Threading: free functions over their arguments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tenon {

struct CpuCore {
  int cpu = 0;   // the system's number
  int node = 0;  // NUMA node
  int core = 0;  // physical core: its hardware threads share it, the lowest one's number
  int package = 0;
  int64_t capacity = 0;  // relative speed; E-cores are lower. 0 when the system does not say
};

struct Topology {
  std::vector<CpuCore> cores;  // those that this process may use (affinity and cpuset)
  double cgroup_cpus = 0;      // cpu.max quota / period; 0: no limit
  int64_t memory_limit = 0;    // bytes; the smaller of physical memory and the cgroup's limit
  std::string cpu_model;       // as /proc/cpuinfo names it
};

// Reads the running machine; `root` is "/" but in tests.
Topology ReadTopology(const std::filesystem::path& root = "/");

// False for a core that is clearly slower than the fastest one that may be used (an E-core).
bool IsPerformanceCore(const Topology& topology, const CpuCore& core);

// Compute threads: physical performance cores that may be used, at most floor(cgroup_cpus), at
// least 1.
int DefaultThreadCount(const Topology& topology);

}  // namespace tenon

// Made-up machines: trees of /sys and /proc as Linux would show them.
#include "hal/topology.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>

namespace tenon {
namespace {

namespace fs = std::filesystem;

class MachineTree {
 public:
  MachineTree() {
    std::string pattern = (fs::temp_directory_path() / "tenon-topology-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~MachineTree() { fs::remove_all(root_); }
  MachineTree(const MachineTree&) = delete;
  MachineTree& operator=(const MachineTree&) = delete;

  const fs::path& root() const { return root_; }

  MachineTree& Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }

  MachineTree& Allow(const std::string& list) {
    Write("proc/self/status",
          "Name:\ttenon\nCpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\n");
    return *this;
  }

  MachineTree& Cpu(int cpu, const std::string& siblings, int package = 0) {
    const std::string folder = CpuFolder(cpu);
    Write(folder + "/topology/thread_siblings_list", siblings + "\n");
    Write(folder + "/topology/physical_package_id", std::to_string(package) + "\n");
    return *this;
  }

  // `count` CPUs from `first`, each a core of its own.
  MachineTree& SingleThreaded(int first, int count) {
    for (int cpu = first; cpu < first + count; ++cpu)
      Cpu(cpu, std::to_string(cpu));
    return *this;
  }

  MachineTree& PerCpu(int first, int count, const std::string& file, const std::string& text) {
    for (int cpu = first; cpu < first + count; ++cpu)
      Write(CpuFolder(cpu) + "/" + file, text + "\n");
    return *this;
  }

  int DefaultThreads() const { return DefaultThreadCount(ReadTopology(root_)); }

 private:
  static std::string CpuFolder(int cpu) {
    return "sys/devices/system/cpu/cpu" + std::to_string(cpu);
  }
  fs::path root_;
};

struct Case {
  const char* name;
  std::function<void(MachineTree&)> build;
  int threads;
};

void EightCores(MachineTree& tree) {
  tree.Allow("0-7").SingleThreaded(0, 8);
}

const Case kCases[] = {
    {"nothing readable", [](MachineTree&) {}, 1},
    {"8 cores", EightCores, 8},
    {"4 cores with 2 threads each, siblings apart",
     [](MachineTree& tree) {
       tree.Allow("0-7");
       for (int cpu = 0; cpu < 8; ++cpu)
         tree.Cpu(cpu, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
     },
     4},
    {"siblings side by side",
     [](MachineTree& tree) {
       tree.Allow("0-3");
       tree.Cpu(0, "0-1").Cpu(1, "0-1").Cpu(2, "2-3").Cpu(3, "2-3");
     },
     2},
    {"affinity leaves both threads of one core",
     [](MachineTree& tree) {
       tree.Allow("2-3");
       tree.Cpu(0, "0-1").Cpu(1, "0-1").Cpu(2, "2-3").Cpu(3, "2-3");
     },
     1},
    {"affinity leaves one thread each of two cores",
     [](MachineTree& tree) {
       tree.Allow("1,3");
       tree.Cpu(0, "0-1").Cpu(1, "0-1").Cpu(2, "2-3").Cpu(3, "2-3");
     },
     2},
    {"a CPU of the mask is offline",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("sys/devices/system/cpu/online", "0-4,6\n");
     },
     6},
    {"no mask: the online CPUs",
     [](MachineTree& tree) {
       tree.SingleThreaded(0, 8).Write("sys/devices/system/cpu/online", "0-2\n");
     },
     3},
    {"cgroup v2 quota 4 of 8",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/cpu.max", "400000 100000\n");
     },
     4},
    {"cgroup v2 quota 7.65 rounds down",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/cpu.max", "765000 100000\n");
     },
     7},
    {"cgroup v2 quota 0.5 still means one",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
     },
     1},
    {"cgroup v2 without a limit",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/cpu.max", "max 100000\n");
     },
     8},
    {"quota larger than the machine",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/\n")
           .Write("sys/fs/cgroup/cpu.max", "9223372036854775807 1\n");
     },
     8},
    {"the group's parent is the tighter one",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/pods/one/main\n")
           .Write("sys/fs/cgroup/pods/cpu.max", "600000 100000\n")
           .Write("sys/fs/cgroup/pods/one/cpu.max", "300000 100000\n")
           .Write("sys/fs/cgroup/pods/one/main/cpu.max", "500000 100000\n");
     },
     3},
    {"a neighbour's limit does not count",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "0::/pods/one\n")
           .Write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n")
           .Write("sys/fs/cgroup/pods/two/cpu.max", "100000 100000\n");
     },
     8},
    {"cgroup v1 quota, path of the host",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n")
           .Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n")
           .Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
     },
     2},
    {"cgroup v1 without a limit",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "1:cpu:/\n")
           .Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
           .Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
     },
     8},
    {"broken limit files are no limit",
     [](MachineTree& tree) {
       EightCores(tree);
       tree.Write("proc/self/cgroup", "garbage\n0::/\n::\n")
           .Write("sys/fs/cgroup/cpu.max", "four 0\n");
     },
     8},
    // 8 performance and 12 efficiency cores, one thread each: neither 4 nor 20.
    {"hybrid Intel without SMT, by PMU",
     [](MachineTree& tree) {
       tree.Allow("0-19").SingleThreaded(0, 20);
       tree.PerCpu(0, 8, "cpufreq/cpuinfo_max_freq", "5500000");
       tree.PerCpu(8, 12, "cpufreq/cpuinfo_max_freq", "4600000");
       tree.Write("sys/devices/cpu_core/cpus", "0-7\n")
           .Write("sys/devices/cpu_atom/cpus", "8-19\n");
     },
     8},
    {"hybrid Intel with SMT on the performance cores",
     [](MachineTree& tree) {
       tree.Allow("0-19").SingleThreaded(12, 8);
       for (int cpu = 0; cpu < 12; ++cpu)
         tree.Cpu(cpu, std::to_string(cpu / 2 * 2) + "-" + std::to_string(cpu / 2 * 2 + 1));
       tree.Write("sys/devices/cpu_core/cpus", "0-11\n")
           .Write("sys/devices/cpu_atom/cpus", "12-19\n");
     },
     6},
    {"hybrid Intel, only efficiency cores allowed",
     [](MachineTree& tree) {
       tree.Allow("12-19").SingleThreaded(12, 8);
       tree.Write("sys/devices/cpu_core/cpus", "0-11\n")
           .Write("sys/devices/cpu_atom/cpus", "12-19\n");
     },
     8},
    {"big.LITTLE by capacity",
     [](MachineTree& tree) {
       tree.Allow("0-7").SingleThreaded(0, 8);
       tree.PerCpu(0, 4, "cpu_capacity", "430").PerCpu(4, 4, "cpu_capacity", "1024");
     },
     4},
    {"classes known by frequency only",
     [](MachineTree& tree) {
       tree.Allow("0-11").SingleThreaded(0, 12);
       tree.PerCpu(0, 4, "cpufreq/cpuinfo_max_freq", "5100000");
       tree.PerCpu(4, 8, "cpufreq/cpuinfo_max_freq", "3300000");
     },
     4},
    {"favoured cores are no class of their own",
     [](MachineTree& tree) {
       tree.Allow("0-7").SingleThreaded(0, 8);
       tree.PerCpu(0, 2, "cpufreq/cpuinfo_max_freq", "5700000");
       tree.PerCpu(2, 6, "cpufreq/cpuinfo_max_freq", "5200000");
     },
     8},
    {"two sockets",
     [](MachineTree& tree) {
       tree.Allow("0-3").Cpu(0, "0", 0).Cpu(1, "1", 0).Cpu(2, "2", 1).Cpu(3, "3", 1);
     },
     4},
    {"nonsense lists",
     [](MachineTree& tree) { tree.Allow("5-2,x,-3,0-99999999,1,").SingleThreaded(0, 2); }, 1},
};

TEST(Topology, DefaultThreadCountOfMachines) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    MachineTree tree;
    c.build(tree);
    EXPECT_EQ(tree.DefaultThreads(), c.threads);
  }
}

TEST(Topology, ReadsNodesPackagesAndCores) {
  MachineTree tree;
  tree.Allow("0-3").Cpu(0, "0,2", 0).Cpu(1, "1,3", 1).Cpu(2, "0,2", 0).Cpu(3, "1,3", 1);
  tree.Write("sys/devices/system/node/node0/cpulist", "0,2\n")
      .Write("sys/devices/system/node/node1/cpulist", "1,3\n")
      .Write("sys/devices/system/node/possible", "0-1\n");
  const Topology topology = ReadTopology(tree.root());
  ASSERT_EQ(topology.cores.size(), 4u);
  for (int cpu = 0; cpu < 4; ++cpu) {
    const CpuCore& core = topology.cores[static_cast<size_t>(cpu)];
    EXPECT_EQ(core.cpu, cpu);
    EXPECT_EQ(core.core, cpu % 2);
    EXPECT_EQ(core.node, cpu % 2);
    EXPECT_EQ(core.package, cpu % 2);
    EXPECT_EQ(core.capacity, 0);
  }
}

TEST(Topology, MemoryLimitIsTheSmallerOne) {
  MachineTree tree;
  tree.Write("proc/meminfo", "MemTotal:       16384 kB\nMemFree:   1 kB\n");
  EXPECT_EQ(ReadTopology(tree.root()).memory_limit, 16777216);
  tree.Write("proc/self/cgroup", "0::/a\n").Write("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(ReadTopology(tree.root()).memory_limit, 16777216);
  tree.Write("sys/fs/cgroup/a/memory.max", "1000000\n");
  EXPECT_EQ(ReadTopology(tree.root()).memory_limit, 1000000);
  tree.Write("proc/self/cgroup", "4:memory:/b\n0::/\n")
      .Write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "9223372036854771712\n")
      .Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(ReadTopology(tree.root()).memory_limit, 2000000);
}

TEST(Topology, ReadsTheQuotaAsAFraction) {
  MachineTree tree;
  tree.Write("proc/self/cgroup", "0::/\n").Write("sys/fs/cgroup/cpu.max", "765000 100000\n");
  EXPECT_DOUBLE_EQ(ReadTopology(tree.root()).cgroup_cpus, 7.65);
}

TEST(Topology, ReadsTheModelName) {
  MachineTree tree;
  tree.Write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Example CPU @ 3 GHz\n");
  EXPECT_EQ(ReadTopology(tree.root()).cpu_model, "Example CPU @ 3 GHz");
}

TEST(Topology, ReadsTheRunningMachine) {
  const Topology topology = ReadTopology();
  ASSERT_FALSE(topology.cores.empty());
  EXPECT_GT(topology.memory_limit, 0);
  EXPECT_GE(DefaultThreadCount(topology), 1);
  EXPECT_LE(DefaultThreadCount(topology), static_cast<int>(topology.cores.size()));
}

}  // namespace
}  // namespace tenon

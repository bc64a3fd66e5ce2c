#include "hal/topology.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Linux's largest NR_CPUS is 8192; a list that names more is not a CPU list.
constexpr int kMaxCpus = 65536;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file)
    text << file.rdbuf();
  return std::move(text).str();
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// The number that `text` starts with, if it does.
std::optional<int64_t> ParseInt(std::string_view text) {
  text = Trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc())
    return std::nullopt;
  return value;
}

std::optional<int64_t> ReadInt(const fs::path& path) {
  return ParseInt(ReadText(path));
}

// The kernel's list format: "0-3,8,10-11". Parts that are not of that form are left out.
std::set<int> ParseCpuList(std::string_view text) {
  std::set<int> cpus;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::optional<int64_t> first = ParseInt(part);
    const size_t dash = part.find('-');
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : ParseInt(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMaxCpus)
      continue;
    for (int64_t cpu = *first; cpu <= *last; ++cpu)
      cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

// The value of the first line "key<spaces>: value" of a /proc file.
std::string FieldOf(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && Trim(std::string_view(line).substr(0, colon)) == key)
      return std::string(Trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

// The process's mask; the kernel has already cut it down to the cpuset. The main thread's, since
// the calling thread may be a pinned one.
std::set<int> AllowedCpus(const fs::path& root) {
  std::set<int> allowed =
      ParseCpuList(FieldOf(ReadText(root / "proc/self/status"), "Cpus_allowed_list"));
  const std::set<int> online = ParseCpuList(ReadText(root / "sys/devices/system/cpu/online"));
  if (allowed.empty())
    allowed = online;
  if (!online.empty())
    std::erase_if(allowed, [&](int cpu) { return !online.contains(cpu); });
  if (allowed.empty())
    allowed.insert(0);
  return allowed;
}

std::map<int, int> NodeOfCpus(const fs::path& root) {
  std::map<int, int> nodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    const std::optional<int64_t> node =
        name.starts_with("node") ? ParseInt(name.substr(4)) : std::nullopt;
    if (!node)
      continue;
    for (int cpu : ParseCpuList(ReadText(entry.path() / "cpulist")))
      nodes[cpu] = static_cast<int>(*node);
  }
  return nodes;
}

// Hybrid Intel: the efficiency cores are those that the kernel counts with the cpu_atom PMU.
std::set<int> AtomCpus(const fs::path& root) {
  std::set<int> cpus = ParseCpuList(ReadText(root / "sys/devices/cpu_atom/cpus"));
  if (cpus.empty())
    cpus = ParseCpuList(ReadText(root / "sys/devices/system/cpu/types/intel_atom_0/cpulist"));
  return cpus;
}

// Linux's scale of cpu_capacity: the fastest core has 1024. An efficiency core that is known only
// by its type gets half of it, about the ratio of Gracemont to Golden Cove.
constexpr int64_t kFullCapacity = 1024;

int64_t CapacityOf(const fs::path& cpu_folder, bool is_atom, bool is_hybrid) {
  if (const auto capacity = ReadInt(cpu_folder / "cpu_capacity"))
    return *capacity;
  if (is_hybrid)
    return is_atom ? kFullCapacity / 2 : kFullCapacity;
  return ReadInt(cpu_folder / "cpufreq/cpuinfo_max_freq").value_or(0);
}

// A core is named after its lowest hardware thread: core_id repeats across packages and clusters.
int PhysicalCoreOf(const fs::path& cpu_folder, int cpu) {
  for (const char* file : {"topology/core_cpus_list", "topology/thread_siblings_list"}) {
    const std::set<int> siblings = ParseCpuList(ReadText(cpu_folder / file));
    if (siblings.contains(cpu))
      return *siblings.begin();
  }
  return cpu;
}

std::vector<CpuCore> ReadCores(const fs::path& root) {
  const std::map<int, int> nodes = NodeOfCpus(root);
  const std::set<int> atoms = AtomCpus(root);
  std::vector<CpuCore> cores;
  for (int cpu : AllowedCpus(root)) {
    const fs::path folder = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu));
    CpuCore core;
    core.cpu = cpu;
    core.core = PhysicalCoreOf(folder, cpu);
    // -1 stands for "unknown" on virtual and some Arm machines.
    const int64_t package = ReadInt(folder / "topology/physical_package_id").value_or(0);
    core.package = static_cast<int>(std::clamp<int64_t>(package, 0, kMaxCpus));
    if (const auto node = nodes.find(cpu); node != nodes.end())
      core.node = node->second;
    core.capacity = CapacityOf(folder, atoms.contains(cpu), !atoms.empty());
    cores.push_back(core);
  }
  return cores;
}

struct CgroupLimits {
  double cpus = 0;     // 0: none
  int64_t memory = 0;  // bytes; 0: none
};

void LimitCpus(std::optional<int64_t> quota, std::optional<int64_t> period, CgroupLimits& limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0)
    return;
  const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.cpus = limits.cpus > 0 ? std::min(limits.cpus, cpus) : cpus;
}

void LimitMemory(std::optional<int64_t> bytes, CgroupLimits& limits) {
  if (!bytes || *bytes <= 0)
    return;
  limits.memory = limits.memory > 0 ? std::min(limits.memory, *bytes) : *bytes;
}

// One group's folder, whatever version its files are of: "max" and -1 stand for no limit.
void ReadGroup(const fs::path& folder, CgroupLimits& limits) {
  const std::string cpu_max = ReadText(folder / "cpu.max");  // "<quota|max> <period>"
  if (const size_t space = cpu_max.find(' '); space != std::string::npos)
    LimitCpus(ParseInt(cpu_max.substr(0, space)), ParseInt(cpu_max.substr(space)), limits);
  LimitCpus(ReadInt(folder / "cpu.cfs_quota_us"), ReadInt(folder / "cpu.cfs_period_us"), limits);
  LimitMemory(ReadInt(folder / "memory.max"), limits);
  LimitMemory(ReadInt(folder / "memory.limit_in_bytes"), limits);
}

// A limit of any ancestor binds too, so the whole chain up to the mount point is read. Inside a
// container the path may name folders of the host that do not exist here; they read as no limit.
void ReadGroupAndAncestors(const fs::path& mount, const fs::path& group, CgroupLimits& limits) {
  fs::path folder = mount;
  ReadGroup(folder, limits);
  for (const fs::path& part : group) {
    if (part == "/" || part.empty() || part == "..")
      continue;
    folder /= part;
    ReadGroup(folder, limits);
  }
}

// /proc/self/cgroup: lines "id:controllers:path"; the version 2 line is "0::path".
CgroupLimits ReadCgroupLimits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mount = root / "sys/fs/cgroup";
  std::istringstream lines(ReadText(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      ReadGroupAndAncestors(mount, group, limits);
      ReadGroupAndAncestors(mount / "unified", group, limits);
    } else {
      ReadGroupAndAncestors(mount / controllers, group, limits);
    }
  }
  return limits;
}

int64_t ReadPhysicalMemory(const fs::path& root) {
  const auto kib = ParseInt(FieldOf(ReadText(root / "proc/meminfo"), "MemTotal"));
  if (!kib || *kib <= 0 || *kib > std::numeric_limits<int64_t>::max() / 1024)
    return 0;
  return *kib * 1024;
}

std::string ReadCpuModel(const fs::path& root) {
  const std::string text = ReadText(root / "proc/cpuinfo");
  for (const char* key : {"model name", "Hardware", "Processor", "cpu model"}) {
    if (std::string model = FieldOf(text, key); !model.empty())
      return model;
  }
  return {};
}

}  // namespace

Topology ReadTopology(const std::filesystem::path& root) {
  Topology topology;
  topology.cores = ReadCores(root);
  const CgroupLimits limits = ReadCgroupLimits(root);
  topology.cgroup_cpus = limits.cpus;
  topology.memory_limit = ReadPhysicalMemory(root);
  if (limits.memory > 0 && (topology.memory_limit == 0 || limits.memory < topology.memory_limit))
    topology.memory_limit = limits.memory;
  topology.cpu_model = ReadCpuModel(root);
  return topology;
}

bool IsPerformanceCore(const Topology& topology, const CpuCore& core) {
  int64_t fastest = 0;
  for (const CpuCore& other : topology.cores)
    fastest = std::max(fastest, other.capacity);
  // Cores of one class differ by up to a tenth or so (favoured cores boost higher); efficiency
  // cores have at most about two thirds of a performance core's speed.
  return core.capacity * 4 >= fastest * 3;
}

int DefaultThreadCount(const Topology& topology) {
  std::set<int> physical;
  for (const CpuCore& core : topology.cores) {
    if (IsPerformanceCore(topology, core))
      physical.insert(core.core);
  }
  int count = static_cast<int>(physical.size());
  if (topology.cgroup_cpus > 0)
    count = std::min(count, static_cast<int>(std::min(std::floor(topology.cgroup_cpus), 1e6)));
  return std::max(count, 1);
}

}  // namespace tenon

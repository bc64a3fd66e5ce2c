#include "hal/kernel_registry.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "fmt/ranges.h"
#include "hal/cpu/kernel_sets.h"

namespace tenon {
namespace {

struct BuiltSet {
  const KernelSet* set;
  bool CpuFeatures::* needs;  // null: runs everywhere
};

// Best first. A new set is one line here and its line in hal/cpu/kernel_sets.h.
constexpr BuiltSet kBuiltSets[] = {
#if defined(__x86_64__)
    {&kAmxKernelSet, &CpuFeatures::amx_int8},
    {&kAvx512VnniKernelSet, &CpuFeatures::avx512vnni},
    {&kAvx2KernelSet, &CpuFeatures::avx2},
#elif defined(__aarch64__)
    {&kNeonKernelSet, &CpuFeatures::neon_dotprod},
#endif
    {&kRefKernelSet, nullptr},
};

template <class Fn>
void FillIfNull(Fn& kernel, Fn fallback) {
  if (kernel == nullptr)
    kernel = fallback;
}

void FillFrom(const KernelSet& fallback, KernelSet& set) {
  for (int i = 0; i < kPackedKindCount; ++i)
    FillIfNull(set.gemm[i], fallback.gemm[i]);
  for (int i = 0; i < kKvFloatTypeCount; ++i)
    FillIfNull(set.kv_store[i], fallback.kv_store[i]);
  for (int i = 0; i < kKvTypeCount; ++i) {
    FillIfNull(set.kv_seal[i], fallback.kv_seal[i]);
    FillIfNull(set.attention[i], fallback.attention[i]);
  }
  FillIfNull(set.quantize_block, fallback.quantize_block);
  FillIfNull(set.quantize_row, fallback.quantize_row);
  FillIfNull(set.quantize_row_per_token, fallback.quantize_row_per_token);
  FillIfNull(set.quantize_wide_block, fallback.quantize_wide_block);
  FillIfNull(set.quantize_wide_row, fallback.quantize_wide_row);
  FillIfNull(set.rms_norm, fallback.rms_norm);
  FillIfNull(set.add, fallback.add);
  FillIfNull(set.mul, fallback.mul);
  FillIfNull(set.scale, fallback.scale);
  FillIfNull(set.silu, fallback.silu);
  FillIfNull(set.gelu, fallback.gelu);
  FillIfNull(set.silu_mul, fallback.silu_mul);
  FillIfNull(set.gelu_mul, fallback.gelu_mul);
  FillIfNull(set.rope_interleaved, fallback.rope_interleaved);
  FillIfNull(set.rope_half, fallback.rope_half);
}

std::vector<std::string> NamesOf(std::span<const KernelSet* const> sets) {
  std::vector<std::string> names;
  for (const KernelSet* set : sets)
    names.emplace_back(set->name);
  return names;
}

Error UnusableSet(std::string_view name) {
  const std::vector<std::string> built = BuiltKernelSetNames();
  const std::string runnable = fmt::format("{}", fmt::join(NamesOf(RunnableKernelSets()), ", "));
  if (std::find(built.begin(), built.end(), name) == built.end())
    return InvalidArgument(
        fmt::format("no CPU kernel set is called \"{}\"; this machine runs: {}", name, runnable));
  return Unsupported(fmt::format("this CPU or system can't run the kernel set \"{}\"; it runs: {}",
                                 name, runnable));
}

}  // namespace

std::vector<const KernelSet*> KernelSetsFor(const CpuFeatures& features) {
  std::vector<const KernelSet*> sets;
  for (const BuiltSet& built : kBuiltSets) {
    if (built.needs == nullptr || features.*built.needs)
      sets.push_back(built.set);
  }
  return sets;
}

std::span<const KernelSet* const> RunnableKernelSets() {
  static const std::vector<const KernelSet*> sets = KernelSetsFor(DetectCpuFeatures());
  return sets;
}

std::vector<std::string> BuiltKernelSetNames() {
  std::vector<std::string> names;
  for (const BuiltSet& built : kBuiltSets)
    names.emplace_back(built.set->name);
  return names;
}

KernelSet FillHoles(std::span<const KernelSet* const> sets) {
  TENON_CHECK(!sets.empty());
  KernelSet filled = *sets.front();
  for (const KernelSet* fallback : sets.subspan(1))
    FillFrom(*fallback, filled);
  return filled;
}

Result<KernelSet> ResolveKernelSet(std::string_view name) {
  const std::span<const KernelSet* const> sets = RunnableKernelSets();
  if (name.empty())
    return FillHoles(sets);
  for (size_t i = 0; i < sets.size(); ++i) {
    if (name == sets[i]->name)
      return FillHoles(sets.subspan(i));
  }
  return UnusableSet(name);
}

Result<KernelSet> ResolveKernelSetFromEnvironment() {
  const char* name = std::getenv("TENON_CPU");
  Result<KernelSet> set = ResolveKernelSet(name == nullptr ? "" : name);
  if (!set.ok())
    set.error().where = "TENON_CPU";
  return set;
}

}  // namespace tenon

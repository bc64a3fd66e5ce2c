#include "hal/kernel_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Sets TENON_CPU for one test and puts the old value back.
class ScopedCpuVariable {
 public:
  explicit ScopedCpuVariable(const char* value) {
    if (const char* before = std::getenv("TENON_CPU"))
      before_ = before;
    setenv("TENON_CPU", value, 1);
  }
  ~ScopedCpuVariable() {
    if (before_.empty())
      unsetenv("TENON_CPU");
    else
      setenv("TENON_CPU", before_.c_str(), 1);
  }
  ScopedCpuVariable(const ScopedCpuVariable&) = delete;
  ScopedCpuVariable& operator=(const ScopedCpuVariable&) = delete;

 private:
  std::string before_;
};

std::vector<std::string> NamesFor(const CpuFeatures& features) {
  std::vector<std::string> names;
  for (const KernelSet* set : KernelSetsFor(features))
    names.emplace_back(set->name);
  return names;
}

void ExpectNoHole(const KernelSet& set) {
  // All members but the name are function pointers, so a hole is a null word behind it.
  void* words[sizeof(KernelSet) / sizeof(void*)];
  static_assert(sizeof(words) == sizeof(KernelSet));
  std::memcpy(words, &set, sizeof(words));
  // Float types are not packed.
  constexpr size_t kFirstSeal = offsetof(KernelSet, kv_seal) / sizeof(void*);
  for (size_t i = 1; i < std::size(words); ++i) {
    const bool of_float_type = i >= kFirstSeal && i < kFirstSeal + kKvFloatTypeCount;
    EXPECT_EQ(words[i] == nullptr, of_float_type) << "entry " << i << " of " << set.name;
  }
}

#if defined(__x86_64__)

TEST(KernelRegistry, BuildsAllSetsBestFirst) {
  EXPECT_THAT(BuiltKernelSetNames(), ElementsAre("amx", "avx512vnni", "avx2", "ref"));
}

TEST(KernelRegistry, ChoosesByFeatures) {
  CpuFeatures features;
  EXPECT_THAT(NamesFor(features), ElementsAre("ref"));
  features.avx2 = true;
  EXPECT_THAT(NamesFor(features), ElementsAre("avx2", "ref"));
  features.avx512vnni = true;
  EXPECT_THAT(NamesFor(features), ElementsAre("avx512vnni", "avx2", "ref"));
  features.amx_int8 = true;
  EXPECT_THAT(NamesFor(features), ElementsAre("amx", "avx512vnni", "avx2", "ref"));
}

// The AMX set has int8 matrix products only: the rest comes from AVX-512, what that lacks from
// AVX2.
TEST(KernelRegistry, HolesComeFromTheNextSet) {
  const std::vector<const KernelSet*> sets = KernelSetsFor({true, true, true, false});
  const KernelSet filled = FillHoles(sets);
  EXPECT_STREQ(filled.name, "amx");
  const int q4 = static_cast<int>(PackedKind::kU4S32);
  EXPECT_EQ(filled.gemm[q4], sets[0]->gemm[q4]);
  EXPECT_EQ(sets[0]->rms_norm, nullptr);
  EXPECT_EQ(filled.rms_norm, sets[1]->rms_norm);
  ExpectNoHole(filled);
}

// Tests of kernels pass over what a set lacks, so what each set has to have is said here.
TEST(KernelRegistry, SetsHaveTheirKernels) {
  const std::vector<const KernelSet*> sets = KernelSetsFor({true, true, true, false});
  ASSERT_EQ(sets.size(), 4U);
  for (int kind = 0; kind < kPackedKindCount; ++kind)
    EXPECT_EQ(sets[0]->gemm[kind] != nullptr,
              FormFor(static_cast<PackedKind>(kind)) == ActivationForm::kInt8);
  for (const KernelSet* set : {sets[1], sets[2], sets[3]})
    ExpectNoHole(*set);
}

#elif defined(__aarch64__)

TEST(KernelRegistry, ChoosesByFeatures) {
  CpuFeatures features;
  EXPECT_THAT(NamesFor(features), ElementsAre("ref"));
  features.neon_dotprod = true;
  EXPECT_THAT(NamesFor(features), ElementsAre("neon", "ref"));
  // Tests of kernels pass over what a set lacks, so what each set has to have is said here.
  for (const KernelSet* set : KernelSetsFor(features))
    ExpectNoHole(*set);
}

#endif

TEST(KernelRegistry, EveryChoiceIsWhole) {
  const auto sets = RunnableKernelSets();
  ASSERT_FALSE(sets.empty());
  EXPECT_STREQ(sets.back()->name, "ref");
  for (const KernelSet* set : sets) {
    auto resolved = ResolveKernelSet(set->name);
    ASSERT_TRUE(resolved.ok()) << set->name;
    EXPECT_STREQ(resolved->name, set->name);
    ExpectNoHole(*resolved);
  }
}

void AddNothing(const float*, const float*, int64_t, float*) {}
void MulNothing(const float*, const float*, int64_t, float*) {}

TEST(KernelRegistry, FillsHolesInOrder) {
  KernelSet first{};
  first.name = "first";
  KernelSet second{};
  second.name = "second";
  first.add = AddNothing;
  second.add = MulNothing;
  second.mul = MulNothing;
  const KernelSet& ref = *RunnableKernelSets().back();
  const KernelSet* const sets[] = {&first, &second, &ref};
  const KernelSet filled = FillHoles(sets);
  EXPECT_STREQ(filled.name, "first");
  EXPECT_EQ(filled.add, AddNothing);
  EXPECT_EQ(filled.mul, MulNothing);
  EXPECT_EQ(filled.rms_norm, ref.rms_norm);
  ExpectNoHole(filled);
}

// For runs on an emulated CPU (tests/emulated), which say what it should run.
TEST(KernelRegistry, ChoosesWhatIsExpected) {
  const char* expected = std::getenv("TENON_EXPECTED_CPU_SETS");
  if (expected == nullptr)
    GTEST_SKIP() << "TENON_EXPECTED_CPU_SETS is not set";
  std::string names;
  for (const KernelSet* set : RunnableKernelSets()) {
    if (!names.empty())
      names += ',';
    names += set->name;
  }
  EXPECT_EQ(names, expected);
}

TEST(KernelRegistry, EmptyNameIsTheBest) {
  auto best = ResolveKernelSet("");
  ASSERT_TRUE(best.ok());
  EXPECT_STREQ(best->name, RunnableKernelSets().front()->name);
}

TEST(KernelRegistry, UnknownNameSaysWhatThereIs) {
  auto set = ResolveKernelSet("sse9");
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(set.error().message, HasSubstr("sse9"));
  EXPECT_THAT(set.error().message, HasSubstr("ref"));
}

TEST(KernelRegistry, UnrunnableNameIsUnsupported) {
  if (RunnableKernelSets().size() == BuiltKernelSetNames().size())
    GTEST_SKIP() << "this machine runs every kernel set of the build";
  auto set = ResolveKernelSet(BuiltKernelSetNames().front());
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(set.error().message, HasSubstr(BuiltKernelSetNames().front()));
}

TEST(KernelRegistry, ObeysTheEnvironment) {
  {
    const ScopedCpuVariable variable("ref");
    auto set = ResolveKernelSetFromEnvironment();
    ASSERT_TRUE(set.ok());
    EXPECT_STREQ(set->name, "ref");
  }
  {
    const ScopedCpuVariable variable("");
    auto set = ResolveKernelSetFromEnvironment();
    ASSERT_TRUE(set.ok());
    EXPECT_STREQ(set->name, RunnableKernelSets().front()->name);
  }
  const ScopedCpuVariable variable("pentium");
  auto set = ResolveKernelSetFromEnvironment();
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().where, "TENON_CPU");
}

}  // namespace
}  // namespace tenon

#include <functional>

#include "hal/kernel_test_support.h"

namespace tenon::kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Lengths with every kind of tail for vectors of 4, 8 and 16.
std::vector<int64_t> OddLengths() {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 35; ++n)
    lengths.push_back(n);
  lengths.push_back(576);
  return lengths;
}

// --- unary and binary kernels: the reference against double, the other sets against it ---

double SiluDouble(double x) {
  return x / (1.0 + std::exp(-x));
}
double GeluDouble(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Values at every scale, and the places where exp leaves the floats.
Floats UnaryInputs() {
  Floats x;
  for (float v = -100.0f; v <= 100.0f; v += 0.0137f)
    x.push_back(v);
  for (const float v : {0.0f, -0.0f, 1e-30f, -1e-30f, 87.0f, -87.0f, 88.0f, -88.0f, 1e4f, -1e4f})
    x.push_back(v);
  return x;
}

// exp errs by 2^-22.5, the sum, the quotient and rounded inputs by 2^-24 each.
TEST(Silu, MatchesDoublePrecision) {
  const Floats x = UnaryInputs();
  Floats out(x.size());
  kRefKernelSet.silu(x.data(), static_cast<int64_t>(x.size()), out.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = SiluDouble(x[i]);
    EXPECT_NEAR(out[i], expected, std::abs(expected) * 0x1p-21 + 1e-36) << x[i];
  }
}

// The exponent 2u carries three roundings of its own size: relative 3 * 2^-24 * |2u| in exp. tanh
// in double cancels to zero for large negative x, where only an absolute bound makes sense.
TEST(Gelu, MatchesDoublePrecision) {
  const Floats x = UnaryInputs();
  Floats out(x.size());
  kRefKernelSet.gelu(x.data(), static_cast<int64_t>(x.size()), out.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = GeluDouble(x[i]);
    const double exponent = std::min(90.0, std::abs(1.6 * x[i] + 0.0714 * std::pow(x[i], 3)));
    const double bound = std::abs(expected) * (0x1p-21 + exponent * 3 * 0x1p-24) + 1e-14;
    EXPECT_NEAR(out[i], expected, bound) << x[i];
  }
}

TEST(Activations, NanAndInfinities) {
  const Floats x = {kNan, kInfinity};
  for (const KernelSet* set : RunnableKernelSets()) {
    for (const UnaryFn kernel : {set->silu, set->gelu}) {
      if (kernel == nullptr)
        continue;
      Floats out(2);
      kernel(x.data(), 2, out.data());
      EXPECT_TRUE(std::isnan(out[0])) << set->name;
      EXPECT_EQ(out[1], kInfinity) << set->name;
    }
  }
}

TEST(Arithmetic, HandComputed) {
  const Floats a = {1.0f, -2.0f, 0.5f};
  const Floats b = {4.0f, 0.25f, 3.0f};
  for (const KernelSet* set : RunnableKernelSets()) {
    Floats out(3);
    if (set->add != nullptr) {
      set->add(a.data(), b.data(), 3, out.data());
      EXPECT_EQ(out, (Floats{5.0f, -1.75f, 3.5f})) << set->name;
    }
    if (set->mul != nullptr) {
      set->mul(a.data(), b.data(), 3, out.data());
      EXPECT_EQ(out, (Floats{4.0f, -0.5f, 1.5f})) << set->name;
    }
    if (set->scale != nullptr) {
      set->scale(a.data(), -2.0f, 3, out.data());
      EXPECT_EQ(out, (Floats{-2.0f, 4.0f, -1.0f})) << set->name;
    }
  }
}

struct ElementwiseCase {
  const char* name;
  // Runs the kernel over n values of a and b; false if the set has a hole there.
  std::function<bool(const KernelSet&, const float* a, const float* b, int64_t n, float* out)> run;
};

template <class Fn, class Call>
bool RunIfPresent(Fn kernel, Call call) {
  if (kernel == nullptr)
    return false;
  call(kernel);
  return true;
}

ElementwiseCase Unary(const char* name, UnaryFn KernelSet::* member) {
  return {name,
          [member](const KernelSet& set, const float* a, const float*, int64_t n, float* out) {
            return RunIfPresent(set.*member, [&](UnaryFn kernel) { kernel(a, n, out); });
          }};
}

ElementwiseCase Binary(const char* name, BinaryFn KernelSet::* member) {
  return {name,
          [member](const KernelSet& set, const float* a, const float* b, int64_t n, float* out) {
            return RunIfPresent(set.*member, [&](BinaryFn kernel) { kernel(a, b, n, out); });
          }};
}

std::vector<ElementwiseCase> ElementwiseCases() {
  return {
      Unary("silu", &KernelSet::silu),
      Unary("gelu", &KernelSet::gelu),
      Binary("add", &KernelSet::add),
      Binary("mul", &KernelSet::mul),
      Binary("silu_mul", &KernelSet::silu_mul),
      Binary("gelu_mul", &KernelSet::gelu_mul),
      {"scale",
       [](const KernelSet& set, const float* a, const float*, int64_t n, float* out) {
         return RunIfPresent(set.scale, [&](ScaleFn kernel) { kernel(a, 0.3f, n, out); });
       }},
      {"rms_norm",
       [](const KernelSet& set, const float* a, const float* b, int64_t n, float* out) {
         return RunIfPresent(set.rms_norm, [&](RmsNormFn kernel) { kernel(a, b, n, 1e-5f, out); });
       }},
  };
}

class Elementwise : public testing::TestWithParam<ElementwiseCase> {};

// Also over the input itself, and without a touch of what lies behind the output.
TEST_P(Elementwise, EverySetEqualsReferenceBitForBit) {
  Random random(3);
  for (const int64_t n : OddLengths()) {
    const auto size = static_cast<size_t>(n);
    Floats a = random.Normals(n);
    for (float& value : a)
      value *= 20.0f;
    const Floats b = random.Normals(n);
    Floats expected(size);
    ASSERT_TRUE(GetParam().run(kRefKernelSet, a.data(), b.data(), n, expected.data()));
    for (const KernelSet* set : RunnableKernelSets()) {
      Floats out(size + 1, 77.0f);
      if (!GetParam().run(*set, a.data(), b.data(), n, out.data()))
        continue;
      EXPECT_EQ(out.back(), 77.0f) << set->name << " n " << n;
      out.pop_back();
      EXPECT_EQ(FirstDifference(expected, out), "") << set->name << " n " << n;
      Floats in_place = a;
      GetParam().run(*set, in_place.data(), b.data(), n, in_place.data());
      EXPECT_EQ(FirstDifference(expected, in_place), "") << set->name << " n " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Elementwise, testing::ValuesIn(ElementwiseCases()),
                         [](const testing::TestParamInfo<ElementwiseCase>& param) {
                           return std::string(param.param.name);
                         });

// Fused kernels promise the floats of the two kernels they replace.
TEST(FusedActivations, EqualTheirParts) {
  Random random(4);
  const Floats a = random.Normals(53);
  const Floats b = random.Normals(53);
  Floats parts(53);
  Floats fused(53);
  kRefKernelSet.silu(a.data(), 53, parts.data());
  kRefKernelSet.mul(parts.data(), b.data(), 53, parts.data());
  kRefKernelSet.silu_mul(a.data(), b.data(), 53, fused.data());
  EXPECT_EQ(FirstDifference(parts, fused), "");
  kRefKernelSet.gelu(a.data(), 53, parts.data());
  kRefKernelSet.mul(parts.data(), b.data(), 53, parts.data());
  kRefKernelSet.gelu_mul(a.data(), b.data(), 53, fused.data());
  EXPECT_EQ(FirstDifference(parts, fused), "");
}

// --- rms_norm and rope ---

// n / 16 + 4 roundings of a sum of positive terms, halved by the root; then a few of the scaling.
TEST(RmsNorm, MatchesDoublePrecision) {
  Random random(5);
  for (const int64_t n : OddLengths()) {
    const Floats x = random.Normals(n);
    const Floats weight = random.Normals(n);
    Floats out(x.size());
    kRefKernelSet.rms_norm(x.data(), weight.data(), n, 1e-5f, out.data());
    double squares = 0;
    for (const float v : x)
      squares += static_cast<double>(v) * v;
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    const double unit = (static_cast<double>(n) / 16 + 4) / 2 + 5;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = x[i] * inverse * weight[i];
      EXPECT_NEAR(out[i], expected, std::abs(expected) * unit * 0x1p-24) << "n " << n;
    }
  }
}

TEST(RmsNorm, ZeroRowStaysZero) {
  const Floats x(40);
  const Floats weight(40, 2.0f);
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->rms_norm == nullptr)
      continue;
    Floats out(40, 5.0f);
    set->rms_norm(x.data(), weight.data(), 40, 1e-6f, out.data());
    EXPECT_EQ(out, x) << set->name;
  }
}

enum class Pairing { kInterleaved, kHalf };

Floats RotateWith(const KernelSet& set, Pairing pairing, Floats x, const Floats& angles) {
  const auto pairs = static_cast<int64_t>(angles.size());
  Floats cosines;
  Floats sines;
  for (const float angle : angles) {
    cosines.push_back(std::cos(angle));
    sines.push_back(std::sin(angle));
  }
  const RopeFn rope = pairing == Pairing::kHalf ? set.rope_half : set.rope_interleaved;
  rope(x.data(), cosines.data(), sines.data(), pairs);
  return x;
}

bool HasRope(const KernelSet& set, Pairing pairing) {
  return (pairing == Pairing::kHalf ? set.rope_half : set.rope_interleaved) != nullptr;
}

TEST(Rope, ReferenceRotatesAsComplexNumbers) {
  Random random(6);
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
    for (const size_t pairs : {1u, 3u, 32u}) {
      const Floats x = random.Normals(static_cast<int64_t>(2 * pairs));
      const Floats angles = random.Normals(static_cast<int64_t>(pairs));
      const Floats out = RotateWith(kRefKernelSet, pairing, x, angles);
      for (size_t p = 0; p < pairs; ++p) {
        const size_t first = pairing == Pairing::kHalf ? p : 2 * p;
        const size_t second = pairing == Pairing::kHalf ? p + pairs : 2 * p + 1;
        const double norm = std::hypot(x[first], x[second]);
        const double angle = std::atan2(x[second], x[first]) + static_cast<double>(angles[p]);
        EXPECT_NEAR(out[first], norm * std::cos(angle), norm * 4 * 0x1p-24);
        EXPECT_NEAR(out[second], norm * std::sin(angle), norm * 4 * 0x1p-24);
      }
    }
  }
}

TEST(Rope, EverySetEqualsReferenceBitForBit) {
  Random random(7);
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
    for (int64_t pairs = 1; pairs <= 40; ++pairs) {
      Floats x = random.Normals(2 * pairs + 1);  // one more than is rotated
      const Floats angles = random.Normals(pairs);
      const Floats expected = RotateWith(kRefKernelSet, pairing, x, angles);
      EXPECT_EQ(expected.back(), x.back());
      for (const KernelSet* set : RunnableKernelSets()) {
        if (!HasRope(*set, pairing))
          continue;
        EXPECT_EQ(FirstDifference(expected, RotateWith(*set, pairing, x, angles)), "")
            << set->name << " pairs " << pairs;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::kernel_test

#include "model/onnx/genai_rope.h"

#include <fmt/format.h>

#include <cmath>

namespace tenon {
namespace {

// Tables are rounded to f32 or f16; angles of position 1 to f32.
constexpr double kTableTolerance = 2e-3;
// Relative; the logarithm of a frequency that was read from a rounded sine.
constexpr double kFrequencyTolerance = 1e-5;

// The base of the last frequency of base^(-2p/d), rounded to a whole number when it is near one.
double BaseOf(double last, int64_t pairs) {
  const double exponent = static_cast<double>(pairs - 1) / static_cast<double>(pairs);
  const double base = std::exp(-std::log(last) / exponent);
  const double whole = std::round(base);
  return std::abs(base - whole) < whole * kFrequencyTolerance * 10 ? whole : base;
}

}  // namespace

Result<TableRope> RopeFromTables(std::span<const float> cos, std::span<const float> sin,
                                 int64_t pairs) {
  const auto width = static_cast<size_t>(pairs);
  if (pairs < 2 || cos.size() != sin.size() || cos.size() % width != 0 || cos.size() / width < 4)
    return Corrupt("rotary caches of other sizes than [positions, pairs]");
  std::vector<double> angles(width);
  for (size_t p = 0; p < width; ++p) {
    angles[p] = std::atan2(double{sin[width + p]}, double{cos[width + p]});
    if (std::abs(cos[p] - 1.0F) > kTableTolerance)
      return Unsupported(fmt::format("rotary caches with a magnitude of {}", cos[p]));
    if (!(angles[p] > 0.0))
      return Corrupt(fmt::format("rotary cache: pair {} does not turn", p));
    for (const size_t t : {size_t{2}, size_t{3}}) {
      if (std::abs(std::cos(angles[p] * static_cast<double>(t)) - double{cos[t * width + p]}) >
          kTableTolerance)
        return Corrupt(fmt::format("rotary cache: pair {} turns unevenly", p));
    }
  }
  TableRope rope;
  // Plain tables have frequency 1 first; scaled ones may change any of them.
  const double base = BaseOf(angles[width - 1], pairs);
  rope.base = static_cast<float>(base);
  bool plain = true;
  for (size_t p = 0; p < width; ++p) {
    const double expected = std::pow(base, -static_cast<double>(p) / static_cast<double>(pairs));
    rope.factors.push_back(static_cast<float>(expected / angles[p]));
    plain = plain && std::abs(expected / angles[p] - 1.0) < kFrequencyTolerance;
  }
  if (plain)
    rope.factors.clear();
  return rope;
}

}  // namespace tenon

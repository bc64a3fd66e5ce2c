#include "engine/exec/rotary_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tenon {
namespace {

// RopeParams::scaling.
constexpr uint8_t kLinear = 1;
constexpr uint8_t kLlama3 = 2;
constexpr uint8_t kYarn = 3;

// Llama 3.1: wavelengths beyond the original context are stretched by `factor`, short ones kept,
// those between blended.
double Llama3Frequency(const RopeParams& rope, double frequency) {
  const double context = static_cast<double>(rope.original_context);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < context / rope.high_freq_factor)
    return frequency;
  if (wavelength > context / rope.low_freq_factor)
    return frequency / rope.factor;
  const double smooth = (context / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

// YaRN (arXiv 2309.00071): the pair whose wave turns `rotations` times within the original context.
double YarnPair(const RopeParams& rope, double rotations) {
  const double context = static_cast<double>(rope.original_context);
  return static_cast<double>(rope.rotary_dim) *
         std::log(context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(rope.base)));
}

double YarnFrequency(const RopeParams& rope, double frequency, int64_t pair) {
  const double low = std::max(std::floor(YarnPair(rope, rope.beta_fast)), 0.0);
  const double high =
      std::min(std::ceil(YarnPair(rope, rope.beta_slow)), static_cast<double>(rope.rotary_dim - 1));
  // 0.001 keeps the ramp finite where both ends meet, as in the reference.
  const double ramp =
      std::clamp((static_cast<double>(pair) - low) / std::max(high - low, 0.001), 0.0, 1.0);
  const double extrapolation = (1.0 - ramp) * rope.ext_factor;
  return frequency / rope.factor * (1.0 - extrapolation) + frequency * extrapolation;
}

double ScaledFrequency(const RopeParams& rope, double frequency, int64_t pair) {
  switch (rope.scaling) {
    case kLinear:
      return frequency / rope.factor;
    case kLlama3:
      return Llama3Frequency(rope, frequency);
    case kYarn:
      return YarnFrequency(rope, frequency, pair);
    default:
      return frequency;
  }
}

}  // namespace

std::vector<float> RotaryFrequencies(const RopeParams& rope, std::span<const float> factors) {
  std::vector<float> frequencies;
  for (int64_t pair = 0; pair < rope.rotary_dim / 2; ++pair) {
    const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(rope.rotary_dim);
    double frequency = 1.0 / std::pow(static_cast<double>(rope.base), exponent);
    if (!factors.empty())
      frequency /= factors[static_cast<size_t>(pair)];
    frequencies.push_back(static_cast<float>(ScaledFrequency(rope, frequency, pair)));
  }
  return frequencies;
}

float RotaryMagnitude(const RopeParams& rope) {
  if (rope.scaling != kYarn)
    return 1.0F;
  if (rope.attention_factor > 0.0F)
    return rope.attention_factor;
  return rope.factor <= 1.0F ? 1.0F : 0.1F * std::log(rope.factor) + 1.0F;
}

int RotaryTables::Add(const RopeParams& rope, std::span<const float> factors) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].rope == rope && std::ranges::equal(tables_[i].factors, factors))
      return static_cast<int>(i);
  }
  Table table;
  table.rope = rope;
  table.factors.assign(factors.begin(), factors.end());
  table.frequencies = RotaryFrequencies(rope, factors);
  table.magnitude = RotaryMagnitude(rope);
  tables_.push_back(std::move(table));
  return static_cast<int>(tables_.size()) - 1;
}

int64_t RotaryTables::ReserveBytes(int64_t tokens) const {
  int64_t floats = 0;
  for (const Table& table : tables_)
    floats += tokens * table.rope.rotary_dim;
  return floats * static_cast<int64_t>(sizeof(float));
}

Status RotaryTables::Reserve(int64_t tokens) {
  TENON_ASSIGN_OR_RETURN(buffer_, Buffer::Allocate(static_cast<size_t>(ReserveBytes(tokens))));
  int64_t offset = 0;
  for (Table& table : tables_) {
    table.offset = offset;
    offset += tokens * table.rope.rotary_dim;
  }
  return {};
}

void RotaryTables::FillRow(const Table& table, int64_t row, int32_t position) {
  const size_t pairs = table.frequencies.size();
  float* cos = buffer_.As<float>() + table.offset + row * table.rope.rotary_dim;
  float* sin = cos + pairs;
  for (size_t pair = 0; pair < pairs; ++pair) {
    const float angle = static_cast<float>(position) * table.frequencies[pair];
    cos[pair] = static_cast<float>(std::cos(static_cast<double>(angle))) * table.magnitude;
    sin[pair] = static_cast<float>(std::sin(static_cast<double>(angle))) * table.magnitude;
  }
}

void RotaryTables::Compute(std::span<const int32_t> positions, ThreadPool& pool) {
  TENON_CHECK(ReserveBytes(static_cast<int64_t>(positions.size())) <=
              static_cast<int64_t>(buffer_.size()));
  // A grain of 16 rows: some 10 microseconds of work, worth waking a thread for.
  pool.ParallelFor(static_cast<int64_t>(positions.size()), 16,
                   [&](int64_t begin, int64_t end, int) {
                     for (const Table& table : tables_) {
                       for (int64_t row = begin; row < end; ++row)
                         FillRow(table, row, positions[static_cast<size_t>(row)]);
                     }
                   });
}

const float* RotaryTables::Cos(int table, int64_t row) const {
  const Table& entry = tables_[static_cast<size_t>(table)];
  return buffer_.As<float>() + entry.offset + row * entry.rope.rotary_dim;
}

const float* RotaryTables::Sin(int table, int64_t row) const {
  return Cos(table, row) + pairs(table);
}

int64_t RotaryTables::pairs(int table) const {
  return tables_[static_cast<size_t>(table)].rope.rotary_dim / 2;
}

}  // namespace tenon

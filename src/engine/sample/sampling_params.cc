#include "engine/sample/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

namespace tenon {
namespace {

// Far beyond any logit, yet sums of a logit and some biases stay finite.
constexpr float kLargestBias = 1e9F;

// Alternatives per token; each costs a selection over the vocabulary and room in the response.
constexpr int32_t kMaxLogprobs = 256;

// Breakers and their lengths: each one is searched for in the whole vocabulary.
constexpr size_t kMaxBreakers = 64;
constexpr size_t kMaxBreakerBytes = 256;

struct FloatRange {
  std::string_view field;
  float value;
  float low;
  float high;
};

struct IntRange {
  std::string_view field;
  int32_t value;
  int32_t low;
  int32_t high;
};

Status CheckFloat(const FloatRange& range) {
  if (range.value >= range.low && range.value <= range.high)  // false for NaN
    return {};
  return InvalidArgument(
      fmt::format("found {}, expected a number from {} to {}", range.value, range.low, range.high),
      std::string(range.field));
}

Status CheckInt(const IntRange& range) {
  if (range.value >= range.low && range.value <= range.high)
    return {};
  return InvalidArgument(fmt::format("found {}, expected an integer from {} to {}", range.value,
                                     range.low, range.high),
                         std::string(range.field));
}

Status CheckFloats(const SamplingParams& params) {
  const FloatRange ranges[] = {
      {"temperature", params.temperature, 0.0F, 100.0F},
      {"top_p", params.top_p, 0.0F, 1.0F},
      {"min_p", params.min_p, 0.0F, 1.0F},
      {"typical_p", params.typical_p, 0.0F, 1.0F},
      // Not down to 0, which would divide by it.
      {"repetition_penalty", params.repetition_penalty, 0.01F, 100.0F},
      {"presence_penalty", params.presence_penalty, -100.0F, 100.0F},
      {"frequency_penalty", params.frequency_penalty, -100.0F, 100.0F},
      {"dry_multiplier", params.dry_multiplier, 0.0F, 100.0F},
      {"dry_base", params.dry_base, 1.0F, 100.0F},
      {"xtc_probability", params.xtc_probability, 0.0F, 1.0F},
      {"xtc_threshold", params.xtc_threshold, 0.0F, 1.0F},
      {"mirostat_tau", params.mirostat_tau, 0.0F, 100.0F},
      {"mirostat_eta", params.mirostat_eta, 0.0F, 10.0F},
  };
  for (const FloatRange& range : ranges)
    TENON_RETURN_IF_ERROR(CheckFloat(range));
  return {};
}

Status CheckInts(const SamplingParams& params) {
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  const IntRange ranges[] = {
      {"top_k", params.top_k, 0, kAny},
      {"penalty_last_n", params.penalty_last_n, -1, kAny},
      {"dry_allowed_length", params.dry_allowed_length, 1, kAny},
      {"dry_penalty_last_n", params.dry_penalty_last_n, -1, kAny},
      {"logprobs", params.logprobs, 0, kMaxLogprobs},
  };
  for (const IntRange& range : ranges)
    TENON_RETURN_IF_ERROR(CheckInt(range));
  if (params.mirostat != 0 && params.mirostat != 2) {
    return InvalidArgument(
        fmt::format("found {}, expected 0 (off) or 2 (version 2)", params.mirostat), "mirostat");
  }
  return {};
}

Status CheckBiases(const SamplingParams& params, int32_t vocab_size) {
  for (size_t i = 0; i < params.logit_bias.size(); ++i) {
    const LogitBias& entry = params.logit_bias[i];
    const std::string field = fmt::format("logit_bias[{}]", i);
    TENON_RETURN_IF_ERROR(CheckInt({field + ".token", entry.token, 0, vocab_size - 1}));
    const bool ban = std::isinf(entry.bias) && entry.bias < 0.0F;
    if (!ban && !(std::abs(entry.bias) <= kLargestBias)) {
      return InvalidArgument(fmt::format("found {}, expected a number from {} to {}, or -infinity",
                                         entry.bias, -kLargestBias, kLargestBias),
                             field + ".bias");
    }
  }
  return {};
}

Status CheckBreakers(const std::vector<std::string>& breakers) {
  if (breakers.size() > kMaxBreakers) {
    return InvalidArgument(
        fmt::format("found {} breakers, expected at most {}", breakers.size(), kMaxBreakers),
        "dry_sequence_breakers");
  }
  for (size_t i = 0; i < breakers.size(); ++i) {
    if (breakers[i].empty() || breakers[i].size() > kMaxBreakerBytes) {
      return InvalidArgument(
          fmt::format("found {} bytes, expected 1 to {}", breakers[i].size(), kMaxBreakerBytes),
          fmt::format("dry_sequence_breakers[{}]", i));
    }
  }
  return {};
}

}  // namespace

Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab_size) {
  TENON_RETURN_IF_ERROR(CheckFloats(params));
  TENON_RETURN_IF_ERROR(CheckInts(params));
  TENON_RETURN_IF_ERROR(CheckBiases(params, vocab_size));
  return CheckBreakers(params.dry_sequence_breakers);
}

}  // namespace tenon

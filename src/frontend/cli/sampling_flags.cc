#include "frontend/cli/sampling_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <random>

namespace tenon {
namespace {

// "TOKEN+BIAS", "TOKEN-BIAS" or "TOKEN-inf".
Result<LogitBias> ParseBias(const std::string& text) {
  const Error error = InvalidArgument(
      fmt::format("'{}' is not TOKEN+BIAS, TOKEN-BIAS or TOKEN-inf", text), "--logit-bias");
  LogitBias bias;
  const char* end = text.data() + text.size();
  const auto [sign, status] = std::from_chars(text.data(), end, bias.token);
  if (status != std::errc() || sign == end || (*sign != '+' && *sign != '-'))
    return error;
  const std::string_view amount(sign + 1, static_cast<size_t>(end - sign - 1));
  if (amount == "inf") {
    bias.bias = std::numeric_limits<float>::infinity();
  } else {
    const auto [rest, amount_status] = std::from_chars(sign + 1, end, bias.bias);
    if (amount_status != std::errc() || rest != end)
      return error;
  }
  if (*sign == '-')
    bias.bias = -bias.bias;
  return bias;
}

Result<uint64_t> ParseSeed(const std::string& text) {
  if (text == "-1")
    return uint64_t{std::random_device()()};
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, seed);
  if (status != std::errc() || rest != end)
    return InvalidArgument(fmt::format("'{}'; expected -1 or an integer of 64 bits", text),
                           "--seed");
  return seed;
}

}  // namespace

void SamplingFlags::Add(CLI::App& app) {
  app.add_option("-n,--n-predict", max_tokens,
                 "Tokens to generate at most (-1: no limit of its own)")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  app.add_option("-s,--seed", seed, "Random seed (-1: a new one each time)");
  app.add_option("--temp,--temperature", params.temperature, "Temperature; 0 is greedy");
  app.add_option("--top-k", params.top_k, "Keep the k most probable tokens; 0: off");
  app.add_option("--top-p", params.top_p, "Keep the most probable tokens up to this mass; 1: off");
  app.add_option("--min-p", params.min_p, "Keep tokens this probable beside the best; 0: off");
  app.add_option("--typical,--typical-p", params.typical_p, "Locally typical sampling; 1: off");
  app.add_option("--repeat-penalty", params.repetition_penalty, "Repetition penalty; 1: off");
  app.add_option("--presence-penalty", params.presence_penalty, "Presence penalty; 0: off");
  app.add_option("--frequency-penalty", params.frequency_penalty, "Frequency penalty; 0: off");
  app.add_option("--repeat-last-n", params.penalty_last_n, "Tokens penalties look at; -1: all");
  app.add_option("--dry-multiplier", params.dry_multiplier, "DRY strength; 0: off");
  app.add_option("--dry-base", params.dry_base, "DRY base");
  app.add_option("--dry-allowed-length", params.dry_allowed_length, "DRY free length");
  app.add_option("--dry-penalty-last-n", params.dry_penalty_last_n, "Tokens DRY looks at; -1: all");
  app.add_option("--dry-sequence-breaker", dry_breakers, "Text that ends a repetition");
  app.add_option("--xtc-probability", params.xtc_probability, "XTC chance; 0: off");
  app.add_option("--xtc-threshold", params.xtc_threshold, "XTC threshold");
  app.add_option("--mirostat", params.mirostat, "Mirostat version: 0 (off) or 2");
  app.add_option("--mirostat-ent", params.mirostat_tau, "Mirostat target surprise, bits");
  app.add_option("--mirostat-lr", params.mirostat_eta, "Mirostat learning rate");
  app.add_option("-l,--logit-bias", logit_bias, "TOKEN+BIAS or TOKEN-BIAS; TOKEN-inf bans it");
  app.add_option("--logprobs", params.logprobs, "Alternatives to report with each token");
  app.add_option("--stop,-r,--reverse-prompt", stop, "Text that ends the generation");
  app.add_flag("--ignore-eos", ignore_eos, "Go on after an end token");
}

Result<SamplingParams> SamplingFlags::ToParams() const {
  SamplingParams result = params;
  if (!dry_breakers.empty())
    result.dry_sequence_breakers = dry_breakers;
  for (const std::string& text : logit_bias) {
    TENON_ASSIGN_OR_RETURN(const LogitBias bias, ParseBias(text));
    result.logit_bias.push_back(bias);
  }
  TENON_ASSIGN_OR_RETURN(result.seed, ParseSeed(seed));
  return result;
}

}  // namespace tenon

// `tenon perplexity`: quality on a text, alone or against a saved base.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/mapped_file.h"
#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"
#include "frontend/session/perplexity.h"

namespace tenon {
namespace {

// Rows of logits in one step: enough for efficient products, 25 MB for a vocabulary of 49,152.
constexpr int64_t kScoredRows = 128;

struct PerplexityFlags {
  ModelFlags model;
  PerplexityOptions options;
  std::string file;
  std::string save_base;
  std::string kl_base;
  std::optional<double> max_delta_ppl;
  bool token_activations = false;
  bool json = false;
};

nlohmann::ordered_json ToJson(const PerplexityResult& result) {
  nlohmann::ordered_json json;
  json["ppl"] = result.ppl;
  json["nll"] = result.nll;
  json["nll_stderr"] = result.nll_stderr;
  json["tokens"] = result.tokens;
  json["chunks"] = result.chunks;
  if (!result.divergence.has_value())
    return json;
  const DivergenceResult& divergence = *result.divergence;
  json["kl_mean"] = divergence.kl_mean;
  json["kl_p99"] = divergence.kl_p99;
  json["top1"] = divergence.top1;
  json["delta_nll"] = divergence.delta_nll;
  json["delta_nll_ci95"] = {divergence.delta_nll_low, divergence.delta_nll_high};
  json["base_ppl"] = divergence.base_ppl;
  json["delta_ppl"] = DeltaPerplexity(result);
  return json;
}

// A result that was printed may still fail.
Status CheckGate(const PerplexityResult& result, std::optional<double> limit) {
  if (!limit.has_value() || !result.divergence.has_value() || DeltaPerplexity(result) <= *limit)
    return {};
  return MakeError(ErrorCode::kInternal,
                   fmt::format("perplexity is {:.4f} above the base, at most {} is allowed",
                               DeltaPerplexity(result), *limit),
                   "--max-delta-ppl");
}

Status Perplexity(PerplexityFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(flags.file));
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  TENON_ASSIGN_OR_RETURN(LoadOptions load, flags.model.ToLoadOptions());
  if (load.context_tokens > 0)
    flags.options.context = load.context_tokens;
  // Half of a chunk is context, and the last token has no successor.
  if (flags.options.context < 3) {
    return InvalidArgument(
        fmt::format("chunks of {} tokens score nothing; 3 is the least", flags.options.context),
        "--ctx-size");
  }
  if (!flags.save_base.empty() && flags.save_base == flags.kl_base)
    return InvalidArgument("the same file as --kl-base", "--save-base");
  load.context_tokens = flags.options.context;
  load.batch_outputs = kScoredRows;
  load.sequences = 1;
  if (flags.token_activations) {
    load.precision = Precision::kReference;
    load.kv_type = load.kv_type.value_or(KvType::kF32);
    load.activation_rounding = ActivationRounding::kPerTokenInt8;
  }
  TENON_RETURN_IF_ERROR(model->Load(load));
  flags.options.save_base = flags.save_base;
  flags.options.kl_base = flags.kl_base;
  const std::string_view bytes(reinterpret_cast<const char*>(text.bytes().data()), text.size());
  auto result =
      MeasurePerplexity(*model, bytes, flags.options, [](int64_t done, int64_t all, double ppl) {
        fmt::print(stderr, "\rchunk {}/{}: perplexity {:.4f}", done, all, ppl);
        std::fflush(stderr);
      });
  fmt::print(stderr, "\n");
  if (!result.ok())
    return std::move(result).error();
  const nlohmann::ordered_json json = ToJson(*result);
  if (flags.json)
    fmt::print("{}\n", json.dump());
  for (const auto& [key, value] : json.items()) {
    if (!flags.json)
      fmt::print("{:<16} {}\n", key, value.dump());
  }
  return CheckGate(*result, flags.max_delta_ppl);
}

}  // namespace

CommandBody DefinePerplexity(CLI::App& app) {
  auto flags = std::make_shared<PerplexityFlags>();
  flags->model.AddAll(app);
  app.add_option("-f,--file", flags->file, "The text")->required();
  app.add_option("--chunks", flags->options.max_chunks, "Chunks to score (default: all)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--save-base", flags->save_base, "Write log-probabilities for a later --kl-base");
  app.add_option("--kl-base", flags->kl_base, "Compare with log-probabilities of --save-base");
  app.add_flag("--a8-per-token", flags->token_activations,
               "In float, with inputs of linears rounded to 8 bits and one scale a token: what a "
               "W8A8 or W4A8 engine gives");
  app.add_option("--max-delta-ppl", flags->max_delta_ppl,
                 "With --kl-base: fail when the perplexity is higher than the base's by more")
      ->needs("--kl-base");
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Perplexity(*flags); };
}

}  // namespace tenon

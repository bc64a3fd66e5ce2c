// `tenon bench modules`: acceleration modules alone and stacked, on workloads of prompts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"
#include "frontend/cli/module_flags.h"
#include "frontend/session/answer_bench.h"
#include "frontend/store/store.h"

namespace tenon {
namespace {

// Rows of logits in one step: judging an answer takes them in pieces of this many.
constexpr int64_t kJudgedRows = 128;

struct BenchModulesFlags {
  ModelFlags model;
  ModuleFlags modules;
  std::vector<std::string> workloads;
  std::string quantized;
  std::string judge;
  int64_t prompts = 4;
  AnswerBenchOptions bench;
  bool json = false;
};

// A model with its modules.
struct Candidate {
  std::unique_ptr<Model> model;
  std::unique_ptr<ModuleSet> modules;
};

Status LoadFor(const BenchModulesFlags& flags, int64_t context_tokens, const ModuleConfig& config,
               Model& model) {
  TENON_ASSIGN_OR_RETURN(LoadOptions options, flags.model.ToLoadOptions());
  options.context_tokens = context_tokens;
  options.batch_outputs = kJudgedRows;
  options.sequences = 1;
  options.weight_cache_options.pages = WeightPages::kCopied;
  TENON_RETURN_IF_ERROR(ApplyToLoad(config, options));
  return model.Load(options);
}

Result<Candidate> MakeCandidate(const BenchModulesFlags& flags, const ModuleConfig& config,
                                int64_t context_tokens, std::unique_ptr<Model> model) {
  Candidate candidate;
  candidate.model = std::move(model);
  TENON_RETURN_IF_ERROR(LoadFor(flags, context_tokens, config, *candidate.model));
  TENON_ASSIGN_OR_RETURN(candidate.modules, ModuleSet::Create(*candidate.model, config));
  return candidate;
}

Result<std::unique_ptr<Model>> OpenNamed(const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(name));
  return Model::Open(path);
}

void PrintTable(const std::vector<AnswerRates>& all) {
  fmt::print("\n{}\n\n", all.front().workload);
  fmt::print(
      "| setting | tok/s | slowest to fastest round | against {} | first token s | gap P50 ms "
      "| gap P99 ms | agreement | NLL |\n|---|---|---|---|---|---|---|---|---|\n",
      all.front().setting);
  for (const AnswerRates& r : all) {
    fmt::print(
        "| {} | {:.1f} | {:.1f} to {:.1f} | {:.2f}x | {:.3f} | {:.1f} | {:.1f} | {:.3f} "
        "| {:.3f} |\n",
        r.setting, r.tok_s, r.tok_s_min, r.tok_s_max, r.tok_s / all.front().tok_s, r.first_token_s,
        1e3 * r.gap_p50_s, 1e3 * r.gap_p99_s, r.agreement, r.nll);
  }
  std::fflush(stdout);
}

void PrintRates(const std::vector<AnswerRates>& all, bool json) {
  if (!json)
    return PrintTable(all);
  for (const AnswerRates& rates : all)
    fmt::print("{}\n", ToJson(rates).dump());
  std::fflush(stdout);
}

// Room for the longest prompt, its answer and the blocks of guesses.
int64_t ContextFor(const std::vector<BenchWorkload>& workloads, int64_t answer_tokens) {
  int64_t longest = 0;
  for (const BenchWorkload& workload : workloads)
    longest = std::max(longest, workload.longest());
  return longest + answer_tokens + 2 * ModuleSet::kGuessRows;
}

Status BenchModules(const BenchModulesFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const ModuleConfig config, flags.modules.ToConfig());
  if (config.modules.empty() && flags.quantized.empty())
    return InvalidArgument("found nothing to compare, expected --config, --module or --quantized",
                           "bench modules");
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  std::vector<BenchWorkload> workloads;
  for (const std::string& argument : flags.workloads) {
    TENON_ASSIGN_OR_RETURN(BenchWorkload workload, ReadWorkload(*model, argument, flags.prompts));
    workloads.push_back(std::move(workload));
  }
  const int64_t context = ContextFor(workloads, flags.bench.answer_tokens);
  std::vector<Candidate> candidates(1);
  TENON_ASSIGN_OR_RETURN(candidates[0], MakeCandidate(flags, config, context, std::move(model)));
  std::vector<BenchSetting> settings =
      AloneAndStacked(*candidates[0].model, candidates[0].modules->chain(), "");
  if (!flags.quantized.empty()) {
    TENON_ASSIGN_OR_RETURN(auto quantized, OpenNamed(flags.quantized));
    TENON_ASSIGN_OR_RETURN(Candidate second,
                           MakeCandidate(flags, config, context, std::move(quantized)));
    candidates.push_back(std::move(second));
    for (BenchSetting& setting :
         AloneAndStacked(*candidates[1].model, candidates[1].modules->chain(), "quantized: "))
      settings.push_back(std::move(setting));
  }
  std::unique_ptr<Model> judge;
  if (!flags.judge.empty()) {
    TENON_ASSIGN_OR_RETURN(judge, OpenNamed(flags.judge));
    TENON_RETURN_IF_ERROR(LoadFor(flags, context, ModuleConfig(), *judge));
  }
  for (const BenchWorkload& workload : workloads) {
    TENON_ASSIGN_OR_RETURN(
        const auto rates,
        RunAnswerBench(settings, workload, judge != nullptr ? *judge : *candidates[0].model,
                       flags.bench));
    PrintRates(rates, flags.json);
  }
  return {};
}

}  // namespace

CommandBody DefineBenchModules(CLI::App& app) {
  auto flags = std::make_shared<BenchModulesFlags>();
  flags->model.AddAll(app);
  flags->modules.Add(app);
  app.add_option("--workload", flags->workloads,
                 "NAME=FILE: prompts, one a line as {\"prompt\": text}")
      ->required()
      ->take_all();
  app.add_option("--quantized", flags->quantized,
                 "The same model with weights of fewer bits: measured alone and with each module");
  app.add_option("--judge", flags->judge, "Model that judges the answers (default: MODEL itself)");
  const CLI::Range count(int64_t{1}, int64_t{1} << 20);
  app.add_option("--prompts", flags->prompts, "Prompts of each workload (default: 4)")
      ->check(count);
  app.add_option("-n,--n-gen", flags->bench.answer_tokens, "Tokens of each answer (default: 128)")
      ->check(count);
  app.add_option("-r,--repetitions", flags->bench.rounds, "Interleaved rounds (default: 2)")
      ->check(count);
  app.add_flag("--json", flags->json, "As JSON, one object a line");
  return [flags] { return BenchModules(*flags); };
}

}  // namespace tenon

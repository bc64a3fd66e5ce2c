// `tenon bench`: prefill, decode and batched decode.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"
#include "frontend/cli/module_flags.h"
#include "frontend/session/bench.h"
#include "frontend/session/generation.h"

namespace tenon {
namespace {

struct BenchFlags {
  ModelFlags model;
  ModuleFlags modules;
  int64_t prompt = 512;
  int64_t generate = 128;
  std::vector<int64_t> depths = {0};
  std::vector<int64_t> sequences;
  int64_t repeats = 5;
  bool json = false;
};

std::vector<BenchCase> Cases(const BenchFlags& flags) {
  std::vector<BenchCase> cases;
  for (int64_t depth : flags.depths) {
    if (flags.prompt > 0)
      cases.push_back({BenchCase::Test::kPrefill, flags.prompt, 1, depth});
    if (flags.generate > 0)
      cases.push_back({BenchCase::Test::kDecode, flags.generate, 1, depth});
    for (int64_t count : flags.sequences)
      cases.push_back({BenchCase::Test::kBatch, flags.generate, count, depth});
  }
  return cases;
}

// From a loaded model to the first token of a 16-token prompt.
Result<double> FirstTokenSeconds(Model& model) {
  GenerationRequest request;
  const auto vocabulary = static_cast<int32_t>(model.runner().vocab_size());
  for (int32_t i = 0; i < 16; ++i)
    request.prompt.push_back((i + 100) % vocabulary);
  request.sampling.temperature = 0.0F;
  request.max_tokens = 1;
  TENON_ASSIGN_OR_RETURN(const GenerationResult result, Generate(model, request, nullptr));
  return result.first_token_s;
}

nlohmann::ordered_json ToJson(const BenchRate& rate) {
  nlohmann::ordered_json json;
  json["test"] = BenchTestName(rate.bench_case.test);
  json["tokens"] = rate.bench_case.tokens;
  json["sequences"] = rate.bench_case.sequences;
  json["context"] = rate.bench_case.context;
  json["tok_s"] = {{"median", rate.median}, {"min", rate.min}, {"max", rate.max}};
  return json;
}

void PrintRate(const BenchRate& rate) {
  fmt::print(stderr,
             "{:<8} {:>5} tokens x {:>2} sequences at {:>5}: {:9.2f} tok/s ({:.2f} to {:.2f})\n",
             BenchTestName(rate.bench_case.test), rate.bench_case.tokens, rate.bench_case.sequences,
             rate.bench_case.context, rate.median, rate.min, rate.max);
}

Status Bench(const BenchFlags& flags) {
  const std::vector<BenchCase> cases = Cases(flags);
  TENON_ASSIGN_OR_RETURN(LoadOptions options, flags.model.ToLoadOptions());
  TENON_ASSIGN_OR_RETURN(const ModuleConfig config, flags.modules.ToConfig());
  options.context_tokens = 32;
  options.sequences = 1;
  options.weight_cache_options.pages = WeightPages::kCopied;
  for (const BenchCase& bench_case : cases) {
    options.context_tokens = std::max(options.context_tokens, BenchContextTokens(bench_case));
    options.batch_outputs = std::max(options.batch_outputs, bench_case.sequences);
    options.sequences = std::max(options.sequences, bench_case.sequences);
  }
  TENON_RETURN_IF_ERROR(ApplyToLoad(config, options));
  if (!config.modules.empty())  // a block more for each, for its first token and for guesses
    options.context_tokens += ModuleSet::kGuessRows * std::max<int64_t>(1, options.sequences);
  options.batch_tokens = std::max(options.batch_tokens, options.batch_outputs);
  const auto start = std::chrono::steady_clock::now();
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  TENON_RETURN_IF_ERROR(model->Load(options));
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - start;
  nlohmann::ordered_json report;
  report["cpu_set"] = model->kernel_set_name();
  report["threads"] = model->pool().threads();
  report["load_s"] = load.count();
  TENON_ASSIGN_OR_RETURN(report["first_token_s"], FirstTokenSeconds(*model));
  TENON_ASSIGN_OR_RETURN(const auto modules, MakeModules(*model, config));
  StepEngine* steps = modules != nullptr ? &modules->steps() : nullptr;
  TENON_ASSIGN_OR_RETURN(const auto rates,
                         RunBench(*model, cases, flags.repeats, PrintRate, steps));
  report["peak_rss_bytes"] = PeakResidentBytes();
  report["results"] = nlohmann::ordered_json::array();
  for (const BenchRate& rate : rates)
    report["results"].push_back(ToJson(rate));
  if (modules != nullptr)
    report["modules"] = ModulesJson(modules->chain());
  if (flags.json)
    fmt::print("{}\n", report.dump());
  else
    fmt::print("{} {} threads, load {:.2f} s, first token {:.3f} s, peak {:.0f} MB\n",
               model->kernel_set_name(), model->pool().threads(), load.count(),
               report["first_token_s"].get<double>(),
               static_cast<double>(PeakResidentBytes()) / 1e6);
  return {};
}

}  // namespace

CommandBody DefineBench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  flags->model.AddAll(app);
  flags->modules.Add(app);
  const CLI::Range tokens(int64_t{0}, int64_t{1} << 20);
  app.add_option("-p,--n-prompt", flags->prompt, "Prompt tokens; 0: no prefill")->check(tokens);
  app.add_option("-n,--n-gen", flags->generate, "Generated tokens; 0: no decode")->check(tokens);
  app.add_option("-d,--n-depth", flags->depths, "Tokens in the cache beforehand")->check(tokens);
  app.add_option("--parallel", flags->sequences, "Sequences of batched decode (-np)")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_option("-r,--repetitions", flags->repeats, "Runs of each test")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Bench(*flags); };
}

}  // namespace tenon

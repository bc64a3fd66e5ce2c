// modules_bench: acceleration modules on real text, each alone and stacked; JSON on standard
// output, one object a line, for bench/modules_table.py.
//
//   modules_bench fit    LARGE SMALL --out ROUTER --text FILE... [--tokens N]
//   modules_bench curve  LARGE SMALL [--router ROUTER] --text FILE... [--tokens N]
//   modules_bench speed  LARGE SMALL [--router ROUTER] [--quantized LARGE2] --workload NAME=FILE...
//                        [--prompts N] [--answer N] [--rounds N]
//   modules_bench supervise LARGE SMALL --workload NAME=FILE... [--prompts N] [--answer N]
//                        routing and a draft under the module manager: its decisions,
//                        what it measured and what a change of modules costs
//
// A workload's file has one prompt a line, {"prompt": text}. Rounds are interleaved: every setting
// is run once in each round, so that what else the machine does hits all of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "accel/draft_model/draft_model_module.h"
#include "accel/manager/supervised_engine.h"
#include "accel/module_chain.h"
#include "accel/ngram/ngram_module.h"
#include "accel/plain_engine.h"
#include "accel/routing/router_file.h"
#include "accel/routing/routing_module.h"
#include "engine/exec/batch_builder.h"
#include "frontend/session/answer_bench.h"
#include "frontend/session/fingerprint.h"
#include "frontend/session/generation.h"
#include "frontend/session/router_fit.h"
#include "frontend/session/routing_curve.h"
#include "frontend/store/store.h"
#include "hal/kernel_registry.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr int64_t kRows = 128;
constexpr int64_t kContext = 2048;

struct Flags {
  std::string large;
  std::string small;
  std::string router;
  std::string quantized;
  std::string out;
  std::vector<std::string> texts;
  std::vector<std::string> workloads;
  std::vector<std::string> only;  // settings by name; empty: all
  int64_t tokens = 8000;
  int64_t prompts = 4;
  int64_t answer = 128;
  int64_t rounds = 2;
};

Result<std::unique_ptr<Model>> Load(const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(name));
  TENON_ASSIGN_OR_RETURN(auto model, Model::Open(path));
  LoadOptions load;
  load.context_tokens = kContext;
  load.batch_outputs = kRows;
  TENON_RETURN_IF_ERROR(model->Load(load));
  return model;
}

// A model that somebody else owns.
class Borrowed : public AuxiliaryModel {
 public:
  Borrowed(Model& model, ThreadPool& pool, std::string fingerprint)
      : model_(model), pool_(pool), fingerprint_(std::move(fingerprint)) {}
  ModelRunner& runner() override { return model_.runner(); }
  ThreadPool& pool() override { return pool_; }
  const Tokenizer& tokenizer() const override { return model_.tokenizer(); }
  const std::string& fingerprint() const override { return fingerprint_; }
  int64_t bytes() const override { return model_.runner().Needs(1).total(); }

 private:
  Model& model_;
  ThreadPool& pool_;
  std::string fingerprint_;
};

class Lender : public ModelProvider {
 public:
  Lender(Model& model, ThreadPool& pool, std::string fingerprint)
      : model_(model), pool_(pool), fingerprint_(std::move(fingerprint)) {}
  Result<std::unique_ptr<AuxiliaryModel>> Open(const ModelRequest& request) override {
    (void)request;
    return std::unique_ptr<AuxiliaryModel>(std::make_unique<Borrowed>(model_, pool_, fingerprint_));
  }

 private:
  Model& model_;
  ThreadPool& pool_;
  std::string fingerprint_;
};

// ---- curve ----

void PrintCurve(const Flags& flags, const std::string& text, const char* score, int64_t hysteresis,
                std::span<const TraceRow> rows, const std::vector<double>& confidence) {
  std::vector<double> sorted = confidence;
  std::ranges::sort(sorted);
  std::vector<double> thresholds = {0.0};
  for (size_t i = 1; i < 40; ++i)
    thresholds.push_back(sorted[sorted.size() * i / 40]);
  thresholds.insert(thresholds.end(), {0.85, 1.01});
  std::ranges::sort(thresholds);
  const auto curve = RoutingCurve(rows, confidence, hysteresis, thresholds);
  Json json = {{"kind", "curve"},
               {"large", flags.large},
               {"text", text},
               {"score", score},
               {"hysteresis", hysteresis},
               {"tokens", rows.size()},
               {"gain_over_random", GainOverRandom(curve)}};
  for (const CurvePoint& p : curve) {
    json["points"].push_back(
        {p.threshold, p.large_share, p.agreement, p.random_agreement, p.nll, p.random_nll});
  }
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);
}

Status Curve(const Flags& flags) {
  TENON_ASSIGN_OR_RETURN(auto small, Load(flags.small));
  TENON_ASSIGN_OR_RETURN(auto large, Load(flags.large));
  std::unique_ptr<RouterScorer> scorer;
  if (!flags.router.empty()) {
    TENON_ASSIGN_OR_RETURN(RouterFile file, ReadRouterFile(flags.router));
    TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
    scorer = std::make_unique<RouterScorer>(std::move(file.net), kernels);
  }
  for (const std::string& text : flags.texts) {
    TENON_ASSIGN_OR_RETURN(const auto documents, ReadDocuments(text));
    const TextWindows windows = MakeWindows(*small, documents, 256, flags.tokens);
    TENON_ASSIGN_OR_RETURN(
        const RoutingTrace trace,
        TraceModels(small->runner(), large->runner(), small->pool(), windows.windows, {}));
    std::map<const char*, std::vector<double>> scores;
    for (const TraceRow& row : trace.rows) {
      scores["top1"].push_back(row.small.top1);
      scores["margin"].push_back(row.small.margin);
      scores["entropy"].push_back(row.small.entropy);
    }
    if (scorer != nullptr) {
      scores["trained"].resize(trace.rows.size());
      scorer->Score(trace.hidden.values, scores["trained"]);
    }
    for (const auto& [score, confidence] : scores) {
      for (const int64_t hysteresis : {1, 3})
        PrintCurve(flags, text, score, hysteresis, trace.rows, confidence);
    }
  }
  return {};
}

// ---- speed ----

// One way to answer: a large model and modules in front of it.
struct Setting {
  std::string name;
  Model* large = nullptr;
  std::unique_ptr<PlainEngine> plain;
  std::unique_ptr<ModuleChain> chain;
  std::vector<std::string> modules;
};

void PrintDecisions(const SupervisedEngine& engine, const std::string& workload) {
  const ManagerReport report = engine.report();
  Json json = {{"kind", "supervise"},
               {"workload", workload},
               {"switch_overhead_ms", 1e3 * report.switch_overhead_s.value_or(NAN)}};
  for (const ManagerReport::Entry& entry : report.modules) {
    json["modules"].push_back({{"name", entry.supervision.name},
                               {"state", SupervisionStateName(entry.supervision.state)},
                               {"saving", entry.supervision.saving.value_or(NAN)},
                               {"checks", entry.supervision.total_checks},
                               {"failures", entry.supervision.total_failures}});
  }
  for (const Decision& decision : report.decisions) {
    json["decisions"].push_back({decision.module, ModuleActionName(decision.action),
                                 ModuleRuleName(decision.rule), decision.reason});
  }
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);
}

class Speed {
 public:
  explicit Speed(const Flags& flags) : flags_(flags) {}

  Status Run() {
    TENON_RETURN_IF_ERROR(LoadModels());
    TENON_RETURN_IF_ERROR(MakeSettings());
    for (const std::string& workload : flags_.workloads)
      TENON_RETURN_IF_ERROR(RunWorkload(workload));
    return {};
  }

  // Routing that routes as its defaults say, watched: more shadow steps than a server would spend,
  // so that a minute shows what it does.
  Status Supervise() {
    TENON_RETURN_IF_ERROR(LoadModels());
    for (const std::string& workload : flags_.workloads) {
      settings_.clear();
      TENON_RETURN_IF_ERROR(Add("routing", *large_, CreateRouting, "routing",
                                {{"small", flags_.small}, {"hysteresis", 1}}));
      TENON_RETURN_IF_ERROR(AddTo(*settings_.front(), CreateDraftModelModule, "draft_model",
                                  {{"model", flags_.small}}));
      MonitoringRules rules;
      rules.shadow_share = 0.25;
      Setting& setting = *settings_.front();
      TENON_ASSIGN_OR_RETURN(const auto engine,
                             SupervisedEngine::Create(*setting.chain, rules, ModuleQuotas()));
      TENON_ASSIGN_OR_RETURN(const BenchWorkload prompts,
                             ReadWorkload(*large_, workload, flags_.prompts));
      for (const auto& prompt : prompts.prompts) {
        GenerationRequest request;
        request.prompt = prompt;
        request.sampling.temperature = 0.0F;
        request.max_tokens = flags_.answer;
        request.end_tokens = EndTokens::kIgnore;
        request.steps = engine.get();
        TENON_ASSIGN_OR_RETURN(const GenerationResult result, Generate(*large_, request, nullptr));
        static_cast<void>(result);
      }
      PrintDecisions(*engine, workload);
    }
    return {};
  }

 private:
  Status LoadModels() {
    TENON_ASSIGN_OR_RETURN(large_, Load(flags_.large));
    TENON_ASSIGN_OR_RETURN(small_, Load(flags_.small));
    if (!flags_.quantized.empty()) {
      TENON_ASSIGN_OR_RETURN(quantized_, Load(flags_.quantized));
    }
    TENON_ASSIGN_OR_RETURN(small_fingerprint_, ModelFingerprint(small_->source()));
    TENON_ASSIGN_OR_RETURN(large_fingerprint_, ModelFingerprint(large_->source()));
    return {};
  }

  using Create = Result<std::unique_ptr<Module>> (*)(const ModuleContext&);

  Status Add(const std::string& name, Model& large, Create create, const std::string& module,
             const nlohmann::json& options) {
    auto setting = std::make_unique<Setting>();
    setting->name = name;
    setting->large = &large;
    setting->plain = std::make_unique<PlainEngine>(large.runner(), large.pool());
    setting->chain = std::make_unique<ModuleChain>(*setting->plain, large.runner().vocab_size());
    if (create != nullptr)
      TENON_RETURN_IF_ERROR(AddTo(*setting, create, module, options));
    settings_.push_back(std::move(setting));
    return {};
  }

  Status AddTo(Setting& setting, Create create, const std::string& module,
               const nlohmann::json& options) {
    Lender lender(*small_, small_->pool(), small_fingerprint_);
    ModuleContext context;
    context.name = module;
    context.options = options;
    context.target = &setting.large->runner();
    context.pool = &setting.large->pool();
    context.tokenizer = &setting.large->tokenizer();
    context.target_fingerprint = large_fingerprint_;  // the router's scores hold for both
    context.models = &lender;
    TENON_ASSIGN_OR_RETURN(auto made, create(context));
    TENON_RETURN_IF_ERROR(setting.chain->Add(std::move(made)));
    setting.modules.push_back(module);
    return {};
  }

  Status AddRouting(const std::string& prefix, Model& large) {
    struct Rule {
      double threshold;
      int64_t hysteresis;
      int64_t switches_per_s;  // 0: no limit
    };
    // The last one is the default of the module. Its limit of switches holds a fast engine longer
    // in the large model, which is why one rule has none.
    const Rule rules[] = {{0.5, 1, 5}, {0.7, 1, 5}, {0.7, 1, 0}, {0.85, 3, 5}};
    for (const auto& [threshold, hysteresis, switches] : rules) {
      const nlohmann::json options = {{"small", flags_.small},
                                      {"threshold", threshold},
                                      {"hysteresis", hysteresis},
                                      {"max_switches_per_s", switches}};
      const std::string name = fmt::format("{}routing {} x{}{}", prefix, threshold, hysteresis,
                                           switches == 0 ? ", any switches" : "");
      TENON_RETURN_IF_ERROR(Add(name, large, CreateRouting, "routing", options));
    }
    if (flags_.router.empty())
      return {};
    const nlohmann::json trained = {
        {"small", flags_.small}, {"router", flags_.router}, {"threshold", 0.7}, {"hysteresis", 1}};
    return Add(prefix + "routing trained 0.7 x1", large, CreateRouting, "routing", trained);
  }

  Status MakeSettings() {
    TENON_RETURN_IF_ERROR(Add("plain", *large_, nullptr, "", {}));
    TENON_RETURN_IF_ERROR(
        Add("ngram", *large_, CreateNgramModule, "ngram", nlohmann::json::object()));
    TENON_RETURN_IF_ERROR(Add("draft_model", *large_, CreateDraftModelModule, "draft_model",
                              {{"model", flags_.small}}));
    TENON_RETURN_IF_ERROR(AddRouting("", *large_));
    if (quantized_ == nullptr)
      return {};
    TENON_RETURN_IF_ERROR(Add("quantization", *quantized_, nullptr, "", {}));
    TENON_RETURN_IF_ERROR(Add("quantization + draft_model", *quantized_, CreateDraftModelModule,
                              "draft_model", {{"model", flags_.small}}));
    return AddRouting("quantization + ", *quantized_);
  }

  Status RunWorkload(const std::string& argument) {
    TENON_ASSIGN_OR_RETURN(const BenchWorkload workload,
                           ReadWorkload(*large_, argument, flags_.prompts));
    std::vector<BenchSetting> settings;
    for (const auto& s : settings_) {
      if (!flags_.only.empty() &&
          std::find(flags_.only.begin(), flags_.only.end(), s->name) == flags_.only.end())
        continue;
      settings.push_back({s->name, s->large, s->chain.get(), s->modules});
    }
    if (settings.empty())
      return InvalidArgument("no setting has one of these names", "--only");
    TENON_ASSIGN_OR_RETURN(const auto rates, RunAnswerBench(settings, workload, *large_,
                                                            {flags_.answer, flags_.rounds}));
    for (const AnswerRates& r : rates)
      fmt::print("{}\n", ToJson(r).dump());
    std::fflush(stdout);
    return {};
  }

  const Flags& flags_;
  std::unique_ptr<Model> large_;
  std::unique_ptr<Model> small_;
  std::unique_ptr<Model> quantized_;
  std::string small_fingerprint_;
  std::string large_fingerprint_;
  std::vector<std::unique_ptr<Setting>> settings_;
};

Status Fit(const Flags& flags) {
  RouterFitOptions options;
  options.small = flags.small;
  options.large = flags.large;
  options.texts = flags.texts;
  options.out = flags.out;
  options.tokens = flags.tokens;
  RouterFitProgress progress;
  progress.on_epoch = [](const EpochReport& epoch) {
    fmt::print(stderr, "epoch {}: loss {:.4f}, held out {:.4f}, AUC {:.4f}\n", epoch.epoch,
               epoch.train_loss, epoch.held_out_loss, epoch.held_out_auc);
  };
  TENON_ASSIGN_OR_RETURN(const Json report, FitRouter(options, progress));
  fmt::print("{}\n", report.dump());
  return {};
}

int Main(int argc, char** argv) {
  CLI::App app("Acceleration modules on real text", "modules_bench");
  app.require_subcommand(1);
  Flags flags;
  std::vector<std::pair<CLI::App*, std::function<Status()>>> commands;
  const auto add = [&](const char* name, std::function<Status()> run) {
    CLI::App* sub = app.add_subcommand(name);
    sub->add_option("LARGE", flags.large)->required();
    sub->add_option("SMALL", flags.small)->required();
    sub->add_option("--router", flags.router);
    sub->add_option("--quantized", flags.quantized);
    sub->add_option("--out", flags.out);
    sub->add_option("--text", flags.texts);
    sub->add_option("--workload", flags.workloads);
    sub->add_option("--only", flags.only);
    sub->add_option("--tokens", flags.tokens);
    sub->add_option("--prompts", flags.prompts);
    sub->add_option("--answer", flags.answer);
    sub->add_option("--rounds", flags.rounds);
    commands.emplace_back(sub, std::move(run));
  };
  add("fit", [&] { return Fit(flags); });
  add("curve", [&] { return Curve(flags); });
  add("speed", [&] { return Speed(flags).Run(); });
  add("supervise", [&] { return Speed(flags).Supervise(); });
  CLI11_PARSE(app, argc, argv);
  for (const auto& [sub, run] : commands) {
    if (!sub->parsed())
      continue;
    const Status status = run();
    if (!status.ok())
      fmt::print(stderr, "modules_bench: {}\n", status.error().ToString());
    return status.ok() ? 0 : 1;
  }
  return 2;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::Main(argc, argv);
}

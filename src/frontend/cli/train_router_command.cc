// `tenon train-router`: fits the router of two models on a text.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "accel/module_context.h"
#include "accel/routing/router_file.h"
#include "accel/routing/router_training.h"
#include "accel/routing/routing_trace.h"
#include "frontend/cli/command.h"
#include "frontend/session/fingerprint.h"
#include "frontend/session/routing_curve.h"
#include "frontend/store/store.h"
#include "hal/kernel_registry.h"

namespace tenon {
namespace {

// Rows of logits in one step (perplexity's choice, for the same reason).
constexpr int64_t kRows = 128;
// Enough to tell a router's quality to a percent or two.
constexpr double kDefaultHeldOut = 0.25;

struct TrainFlags {
  std::string small;
  std::string large;
  std::vector<std::string> texts;
  std::string out;
  int64_t window = 256;
  int64_t tokens = 40'000;
  double held_out = kDefaultHeldOut;
  int threads = 0;
  RouterTrainingOptions training;
  bool json = false;
};

Result<std::unique_ptr<Model>> OpenFor(const std::string& name, const TrainFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(name));
  TENON_ASSIGN_OR_RETURN(auto model, Model::Open(path));
  LoadOptions load;
  load.threads = flags.threads;
  load.context_tokens = flags.window;
  load.batch_tokens = std::max<int64_t>(flags.window, kRows);
  load.batch_outputs = kRows;
  TENON_RETURN_IF_ERROR(model->Load(load));
  return model;
}

// Rows of the trace as examples: those whose document is in the set.
struct Split {
  RouterExamples train;
  RouterExamples held_out;
  std::vector<TraceRow> held_out_rows;
};

void AddExample(const RoutingTrace& trace, size_t row, RouterExamples& examples) {
  const auto hidden = trace.hidden.row(static_cast<int64_t>(row));
  examples.hidden.columns = trace.hidden.columns;
  examples.hidden.values.insert(examples.hidden.values.end(), hidden.begin(), hidden.end());
  ++examples.hidden.rows;
  examples.labels.push_back(RouteLabel(trace.rows[row]));
}

// By document: neighbours in one text are too alike to test on.
Split SplitByDocument(const RoutingTrace& trace, const std::vector<size_t>& document,
                      const TrainFlags& flags) {
  std::vector<size_t> documents = document;
  std::ranges::sort(documents);
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  std::mt19937_64 random(flags.training.seed);
  std::ranges::shuffle(documents, random);
  const auto held =
      static_cast<size_t>(std::max(1.0, flags.held_out * static_cast<double>(documents.size())));
  documents.resize(std::min(held, documents.size()));
  Split split;
  for (size_t i = 0; i < trace.rows.size(); ++i) {
    const size_t from = document[static_cast<size_t>(trace.rows[i].window)];
    const bool is_held_out = std::ranges::count(documents, from) > 0;
    AddExample(trace, i, is_held_out ? split.held_out : split.train);
    if (is_held_out)
      split.held_out_rows.push_back(trace.rows[i]);
  }
  return split;
}

// Thresholds at which 1/20, 2/20, ... of the rows are below.
std::vector<double> Quantiles(std::vector<double> confidence) {
  std::ranges::sort(confidence);
  std::vector<double> thresholds = {0.0};
  for (size_t i = 1; i < 20; ++i)
    thresholds.push_back(confidence[confidence.size() * i / 20]);
  thresholds.push_back(1.01);
  return thresholds;
}

nlohmann::ordered_json CurveJson(const Split& split, const std::vector<double>& confidence) {
  nlohmann::ordered_json json;
  const auto curve = RoutingCurve(split.held_out_rows, confidence, 1, Quantiles(confidence));
  json["auc"] = AreaUnderCurve(confidence, split.held_out.labels);
  json["gain_over_random"] = GainOverRandom(curve);
  for (const CurvePoint& point : curve) {
    json["curve"].push_back({{"threshold", point.threshold},
                             {"large_share", point.large_share},
                             {"agreement", point.agreement},
                             {"random_agreement", point.random_agreement},
                             {"nll", point.nll},
                             {"random_nll", point.random_nll}});
  }
  return json;
}

nlohmann::ordered_json HeldOutReport(const Split& split, const RouterNet& net,
                                     const KernelSet& kernels) {
  const RouterScorer scorer(net, kernels);
  std::vector<double> trained(split.held_out_rows.size());
  scorer.Score(split.held_out.hidden.values, trained);
  nlohmann::ordered_json json;
  json["trained"] = CurveJson(split, trained);
  const std::pair<const char*, double RowConfidence::*> scores[] = {
      {"top1", &RowConfidence::top1},
      {"margin", &RowConfidence::margin},
      {"entropy", &RowConfidence::entropy}};
  for (const auto& [name, member] : scores) {
    std::vector<double> confidence;
    for (const TraceRow& row : split.held_out_rows)
      confidence.push_back(row.small.*member);
    json[name] = CurveJson(split, confidence);
  }
  return json;
}

void PrintReport(const nlohmann::ordered_json& report) {
  fmt::print("{:<8} {:>6} {:>12}   agreement at a share of the large model (random)\n", "score",
             "AUC", "over random");
  for (const auto& [name, entry] : report["held_out"].items()) {
    fmt::print("{:<8} {:>6.3f} {:>12.4f}  ", name, entry["auc"].get<double>(),
               entry["gain_over_random"].get<double>());
    for (const size_t i : {5U, 10U, 15U}) {
      const auto& point = entry["curve"][i];
      fmt::print(" {:.0f}%: {:.1f}% ({:.1f}%)", 100 * point["large_share"].get<double>(),
                 100 * point["agreement"].get<double>(),
                 100 * point["random_agreement"].get<double>());
    }
    fmt::print("\n");
  }
}

Result<RoutingTrace> Trace(Model& small, Model& large, const TextWindows& text) {
  const size_t all = text.windows.size();
  auto trace =
      TraceModels(small.runner(), large.runner(), small.pool(), text.windows, [&](int64_t done) {
        fmt::print(stderr, "\rwindow {}/{}", done, all);
        std::fflush(stderr);
      });
  fmt::print(stderr, "\n");
  return trace;
}

Result<TextWindows> ReadTexts(const Model& model, const TrainFlags& flags) {
  std::vector<std::string> documents;
  for (const std::string& path : flags.texts) {
    TENON_ASSIGN_OR_RETURN(auto more, ReadDocuments(path));
    documents.insert(documents.end(), more.begin(), more.end());
  }
  // Many documents rather than the first ones.
  std::mt19937_64 random(flags.training.seed);
  std::ranges::shuffle(documents, random);
  TextWindows text = MakeWindows(model, documents, flags.window, flags.tokens);
  if (text.document.empty() || text.document.back() == 0) {
    return InvalidArgument("fewer than two documents: nothing could be held out", "--text");
  }
  return text;
}

Status TrainRouterCommand(const TrainFlags& flags) {
  TENON_ASSIGN_OR_RETURN(auto small, OpenFor(flags.small, flags));
  TENON_ASSIGN_OR_RETURN(auto large, OpenFor(flags.large, flags));
  TENON_RETURN_IF_ERROR(CheckSameTokenizer(large->tokenizer(), small->tokenizer()));
  if (small->runner().hidden_size() == 0)
    return Unsupported("its graph does not give its hidden states", flags.small);
  TENON_ASSIGN_OR_RETURN(const TextWindows text, ReadTexts(*small, flags));
  RouterFile file;
  TENON_ASSIGN_OR_RETURN(file.small_fingerprint, ModelFingerprint(small->source()));
  TENON_ASSIGN_OR_RETURN(file.large_fingerprint, ModelFingerprint(large->source()));
  TENON_ASSIGN_OR_RETURN(const RoutingTrace trace, Trace(*small, *large, text));
  const Split split = SplitByDocument(trace, text.document, flags);
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(
      file.net, TrainRouter(split.train, split.held_out, flags.training, kernels, small->pool(),
                            [](const EpochReport& epoch) {
                              fmt::print(stderr,
                                         "epoch {}: loss {:.4f}, held out {:.4f}, AUC {:.4f}\n",
                                         epoch.epoch, epoch.train_loss, epoch.held_out_loss,
                                         epoch.held_out_auc);
                            }));
  TENON_RETURN_IF_ERROR(WriteRouterFile(flags.out, file));
  nlohmann::ordered_json report;
  report["file"] = flags.out;
  report["examples"] = split.train.hidden.rows;
  report["held_out_examples"] = split.held_out.hidden.rows;
  const double good = std::accumulate(split.train.labels.begin(), split.train.labels.end(), 0.0);
  report["fine_share"] = good / static_cast<double>(split.train.labels.size());
  report["held_out"] = HeldOutReport(split, file.net, kernels);
  if (flags.json)
    fmt::print("{}\n", report.dump());
  else
    PrintReport(report);
  return {};
}

}  // namespace

CommandBody DefineTrainRouter(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  app.add_option("SMALL", flags->small, "The small model: file, directory or name")->required();
  app.add_option("LARGE", flags->large, "The large model, with the same tokenizer")->required();
  app.add_option("--text", flags->texts, "Text or .jsonl to learn from; may be repeated")
      ->required();
  app.add_option("--out", flags->out, "The router's file (safetensors)")->required();
  app.add_option("--tokens", flags->tokens, "Tokens to look at (default: 40000)")
      ->check(CLI::Range(int64_t{1000}, int64_t{10'000'000}));
  app.add_option("--window", flags->window, "Tokens of context at most (default: 256)")
      ->check(CLI::Range(int64_t{16}, int64_t{4096}));
  app.add_option("--held-out", flags->held_out, "Share of documents for the test (default: 0.25)")
      ->check(CLI::Range(0.01, 0.9));
  app.add_option("--epochs", flags->training.max_epochs, "At most (default: 30)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  app.add_option("--lr", flags->training.learning_rate, "Learning rate (default: 3e-4)")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--seed", flags->training.seed, "Of the split and the training");
  app.add_option("-t,--threads", flags->threads, "Compute threads")->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags->json, "As JSON, with the curves");
  return [flags] { return TrainRouterCommand(*flags); };
}

}  // namespace tenon

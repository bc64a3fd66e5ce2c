#include "frontend/session/router_fit.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "accel/module_context.h"
#include "accel/routing/router_file.h"
#include "accel/routing/routing_trace.h"
#include "frontend/session/fingerprint.h"
#include "frontend/session/routing_curve.h"
#include "frontend/store/store.h"
#include "hal/kernel_registry.h"

namespace tenon {
namespace {

// Rows of logits in one step (perplexity's choice, for the same reason).
constexpr int64_t kRows = 128;
Result<std::unique_ptr<Model>> OpenFor(const std::string& name, const RouterFitOptions& options) {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(name));
  TENON_ASSIGN_OR_RETURN(auto model, Model::Open(path));
  LoadOptions load;
  load.threads = options.threads;
  load.context_tokens = options.window;
  load.batch_tokens = std::max<int64_t>(options.window, kRows);
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
                      const RouterFitOptions& options) {
  std::vector<size_t> documents = document;
  std::ranges::sort(documents);
  documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
  std::mt19937_64 random(options.training.seed);
  std::ranges::shuffle(documents, random);
  const auto held =
      static_cast<size_t>(std::max(1.0, options.held_out * static_cast<double>(documents.size())));
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

Result<TextWindows> ReadTexts(const Model& model, const RouterFitOptions& options) {
  std::vector<std::string> documents;
  for (const std::string& path : options.texts) {
    TENON_ASSIGN_OR_RETURN(auto more, ReadDocuments(path));
    documents.insert(documents.end(), more.begin(), more.end());
  }
  // Many documents rather than the first ones.
  std::mt19937_64 random(options.training.seed);
  std::ranges::shuffle(documents, random);
  TextWindows text = MakeWindows(model, documents, options.window, options.tokens);
  if (text.document.empty() || text.document.back() == 0) {
    return InvalidArgument("fewer than two documents: nothing could be held out", "--text");
  }
  return text;
}

}  // namespace

Result<nlohmann::ordered_json> FitRouter(const RouterFitOptions& options,
                                         const RouterFitProgress& progress) {
  TENON_ASSIGN_OR_RETURN(auto small, OpenFor(options.small, options));
  TENON_ASSIGN_OR_RETURN(auto large, OpenFor(options.large, options));
  TENON_RETURN_IF_ERROR(CheckSameTokenizer(large->tokenizer(), small->tokenizer()));
  if (small->runner().hidden_size() == 0)
    return Unsupported("its graph does not give its hidden states", options.small);
  TENON_ASSIGN_OR_RETURN(const TextWindows text, ReadTexts(*small, options));
  RouterFile file;
  TENON_ASSIGN_OR_RETURN(file.small_fingerprint, ModelFingerprint(small->source()));
  TENON_ASSIGN_OR_RETURN(file.large_fingerprint, ModelFingerprint(large->source()));
  const auto all = static_cast<int64_t>(text.windows.size());
  const auto on_window = [&](int64_t done) {
    if (progress.on_window)
      progress.on_window(done, all);
  };
  TENON_ASSIGN_OR_RETURN(
      const RoutingTrace trace,
      TraceModels(small->runner(), large->runner(), small->pool(), text.windows, on_window));
  const Split split = SplitByDocument(trace, text.document, options);
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(file.net, TrainRouter({split.train, split.held_out}, options.training,
                                               kernels, small->pool(), progress.on_epoch));
  TENON_RETURN_IF_ERROR(WriteRouterFile(options.out, file));
  nlohmann::ordered_json report;
  report["file"] = options.out.string();
  report["examples"] = split.train.hidden.rows;
  report["held_out_examples"] = split.held_out.hidden.rows;
  const double good = std::accumulate(split.train.labels.begin(), split.train.labels.end(), 0.0);
  report["fine_share"] = good / static_cast<double>(split.train.labels.size());
  report["held_out"] = HeldOutReport(split, file.net, kernels);
  return report;
}

}  // namespace tenon

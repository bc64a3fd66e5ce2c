// `tenon train-router`: fits the router of two models on a text.
#include <fmt/format.h>

#include <cstdio>

#include "frontend/cli/command.h"
#include "frontend/session/router_fit.h"

namespace tenon {
namespace {

struct TrainFlags {
  RouterFitOptions fit;
  std::string out;
  bool json = false;
};

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

Status TrainRouterCommand(TrainFlags& flags) {
  flags.fit.out = flags.out;
  RouterFitProgress progress;
  progress.on_window = [](int64_t done, int64_t all) {
    fmt::print(stderr, "\rwindow {}/{}{}", done, all, done == all ? "\n" : "");
    std::fflush(stderr);
  };
  progress.on_epoch = [](const EpochReport& epoch) {
    fmt::print(stderr, "epoch {}: loss {:.4f}, held out {:.4f}, AUC {:.4f}\n", epoch.epoch,
               epoch.train_loss, epoch.held_out_loss, epoch.held_out_auc);
  };
  TENON_ASSIGN_OR_RETURN(const nlohmann::ordered_json report, FitRouter(flags.fit, progress));
  if (flags.json)
    fmt::print("{}\n", report.dump());
  else
    PrintReport(report);
  return {};
}

}  // namespace

CommandBody DefineTrainRouter(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  app.add_option("SMALL", flags->fit.small, "The small model: file, directory or name")->required();
  app.add_option("LARGE", flags->fit.large, "The large model, with the same tokenizer")->required();
  app.add_option("--text", flags->fit.texts, "Text or .jsonl to learn from; may be repeated")
      ->required();
  app.add_option("--out", flags->out, "The router's file (safetensors)")->required();
  app.add_option("--tokens", flags->fit.tokens, "Tokens to look at (default: 40000)")
      ->check(CLI::Range(int64_t{1000}, int64_t{10'000'000}));
  app.add_option("--window", flags->fit.window, "Tokens of context at most (default: 256)")
      ->check(CLI::Range(int64_t{16}, int64_t{4096}));
  app.add_option("--held-out", flags->fit.held_out,
                 "Share of documents for the test (default: 0.25)")
      ->check(CLI::Range(0.01, 0.9));
  app.add_option("--epochs", flags->fit.training.max_epochs, "At most (default: 30)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  app.add_option("--lr", flags->fit.training.learning_rate, "Learning rate (default: 3e-4)")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--seed", flags->fit.training.seed, "Of the split and the training");
  app.add_option("-t,--threads", flags->fit.threads, "Compute threads")->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags->json, "As JSON, with the curves");
  return [flags] { return TrainRouterCommand(*flags); };
}

}  // namespace tenon

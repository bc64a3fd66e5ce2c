// Fits the router between two models on texts, and measures it on documents that it did not see.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accel/routing/router_training.h"
#include "base/result.h"

namespace tenon {

struct RouterFitOptions {
  std::string small;  // models: a file, a directory or a name of the store
  std::string large;
  std::vector<std::string> texts;  // files, see ReadDocuments
  std::filesystem::path out;       // the router's file
  int64_t window = 256;            // tokens of context at most
  int64_t tokens = 40'000;         // looked at
  double held_out = 0.25;          // share of the documents: tells quality to a percent or two
  int threads = 0;
  RouterTrainingOptions training;
};

struct RouterFitProgress {
  std::function<void(int64_t done, int64_t all)> on_window;
  std::function<void(const EpochReport&)> on_epoch;
};

// Writes options.out and returns a report: "examples", "held_out_examples", "fine_share" and, under
// "held_out", for the trained score and each training-free one "auc", "gain_over_random" and
// "curve". Fails with kUnsupported for models of different tokenizers.
Result<nlohmann::ordered_json> FitRouter(const RouterFitOptions& options,
                                         const RouterFitProgress& progress);

}  // namespace tenon

// Training of a RouterNet on labelled hidden states, and honest measures of what it learned.
//
// Binary cross-entropy, Adam, dropout, early stopping on examples of documents that were not
// trained on; what is returned is a copy of the best state, not the last one. The same data,
// options and kernel set give the same network.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "accel/routing/router_net.h"
#include "base/result.h"

namespace tenon {

struct RouterExamples {
  FloatMatrix hidden;         // [N, H]
  std::vector<float> labels;  // [N], 1: the small model's token is fine
};

struct RouterTrainingOptions {
  int64_t max_epochs = 30;
  int64_t patience = 5;  // epochs without a better held-out loss
  int64_t batch = 256;   // CITER takes 64 to 80; the products are faster with more
  double learning_rate = 3e-4;
  double weight_decay = 0.01;  // decoupled (AdamW); the network has more weights than examples
  double dropout = 0.1;
  uint64_t seed = 1;
};

// Views; nothing of the held-out set is learned from.
struct RouterSets {
  const RouterExamples& train;
  const RouterExamples& held_out;
};

struct EpochReport {
  int64_t epoch = 0;
  double train_loss = 0.0;     // nats
  double held_out_loss = 0.0;  // nats
  double held_out_auc = 0.0;
};

// Fails with kInvalidArgument when either set is empty, or has labels of one kind only.
Result<RouterNet> TrainRouter(const RouterSets& sets, const RouterTrainingOptions& options,
                              const KernelSet& kernels, ThreadPool& pool,
                              const std::function<void(const EpochReport&)>& on_epoch);

// Area under the ROC curve of `scores` for labels above one half; ties count one half. NaN when
// there is one kind of label only.
double AreaUnderCurve(std::span<const double> scores, std::span<const float> labels);

}  // namespace tenon

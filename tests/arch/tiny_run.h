// Tiny models in reference mode: loading, logits of all tokens, the distance from the reference.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/exec/model_runner.h"
#include "engine/plan/weight_source.h"
#include "graph/passes/optimize.h"
#include "hal/thread_pool.h"
#include "model/model_source.h"
#include "tiny_model.h"

namespace tenon::testing {

struct TinyRun {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<ModelRunner> runner;
};

Result<TinyRun> LoadTiny(const ModelSource& source, const WeightSource& weights,
                         OptimizeLevel level, ActivationMode activations = ActivationMode::kFloat);

// Of a graph that is no family's.
Result<TinyRun> LoadTinyGraph(Graph graph, const WeightSource& weights, OptimizeLevel level,
                              ActivationMode activations);

// Logits of all tokens, [tokens, vocab]: the first `prompt` in one step, the others one by one.
std::vector<float> RunTokens(ModelRunner& runner, std::span<const int32_t> tokens, size_t prompt);

// The largest absolute difference of a logit.
double WorstError(const TinyCase& tiny, std::span<const float> logits);

}  // namespace tenon::testing

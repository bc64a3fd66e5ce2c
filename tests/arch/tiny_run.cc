#include "tiny_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"

namespace tenon::testing {

Result<TinyRun> LoadTiny(const ModelSource& source, const WeightSource& weights,
                         OptimizeLevel level, ActivationMode activations) {
  TENON_ASSIGN_OR_RETURN(Graph graph, BuildGraph(source));
  return LoadTinyGraph(std::move(graph), weights, level, activations);
}

Result<TinyRun> LoadTinyGraph(Graph graph, const WeightSource& weights, OptimizeLevel level,
                              ActivationMode activations) {
  TinyRun run;
  RunnerOptions options;
  options.plan.max_tokens = 64;
  options.plan.max_outputs = 64;
  options.plan.kv_type = KvType::kF32;
  options.passes.level = level;
  options.passes.activations = activations;
  options.kv_tokens = 64;
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(run.runner,
                         ModelRunner::Prepare(std::move(graph), weights, kernels, options));
  TENON_ASSIGN_OR_RETURN(run.pool, ThreadPool::Create(2));
  TENON_RETURN_IF_ERROR(run.runner->Load(*run.pool, 0));
  return run;
}

std::vector<float> RunTokens(ModelRunner& runner, std::span<const int32_t> tokens, size_t prompt) {
  std::vector<float> all;
  Sequence sequence(runner.kv(), CacheScope{}, PrefixCache::kOff);
  EXPECT_TRUE(ReserveNow(sequence, static_cast<int64_t>(tokens.size())).ok());
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = done == 0 ? prompt : 1;
    BatchBuilder builder;
    const int32_t index = builder.AddSequence(sequence.block_table());
    builder.AddTokens(index, tokens.subspan(done, count), static_cast<int64_t>(done),
                      BatchBuilder::Outputs::kAll);
    const auto logits = runner.Step(builder.batch());
    EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().ToString());
    if (!logits.ok())
      return {};
    all.insert(all.end(), logits->begin(), logits->end());
    done += count;
  }
  return all;
}

double WorstError(const TinyCase& tiny, std::span<const float> logits) {
  EXPECT_FALSE(tiny.positions.empty());
  double worst = 0.0;
  for (const auto& [position, expected] : tiny.positions) {
    const auto row = logits.subspan(static_cast<size_t>(position) * expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(static_cast<double>(row[i]) - static_cast<double>(expected[i]));
      if (std::isnan(error))  // std::max would pass over it
        return std::numeric_limits<double>::infinity();
      worst = std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace tenon::testing

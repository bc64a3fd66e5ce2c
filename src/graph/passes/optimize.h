// The optimiser: a named, ordered list of graph rewrites, each timed, measured and verified.
//
// Constant folding works on attributes (fold_scales): the graph has no weights' bytes, so an op
// whose inputs are all weights cannot be evaluated here, and the built-in ops all take an
// activation anyway.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/cost.h"
#include "graph/graph.h"

namespace tenon {

enum class OptimizeLevel : uint8_t {
  kO0,  // the graph as it was built
  kO3,  // every pass
};

// How the inputs of linears with quantized weights are multiplied.
enum class ActivationMode : uint8_t {
  kFloat,  // F32 activations
  kInt8,   // quantized first, by explicit ops
  // The same with one scale for a row: only what makes whole rows quantizes its own results.
  kInt8PerToken,
};

// How the inputs of linears with 16-bit weights are multiplied, unless activations are kFloat.
enum class WideActivations : uint8_t {
  kByOps,  // quantized to 16 bits first, by explicit ops
  // By what multiplies them: for weights that are packed to another type than the graph says.
  kByLinears,
};

struct PassOptions {
  OptimizeLevel level = OptimizeLevel::kO3;
  ActivationMode activations = ActivationMode::kInt8;
  WideActivations wide_activations = WideActivations::kByOps;
  std::vector<std::string> disabled;  // names of passes that do not run
  CostPoint cost_point;               // where the report's costs are taken
};

struct Pass {
  std::string_view name;
  std::string_view summary;  // one line for people
  Status (*run)(Graph& graph, const PassOptions& options);
};

// In the order in which they run.
std::span<const Pass> OptimizePasses();

struct PassStats {
  std::string name;
  double milliseconds = 0;  // of the pass, without its verification
  size_t ops_before = 0;
  size_t ops_after = 0;
  Cost before;
  Cost after;
};

// One entry for each pass that ran.
struct OptimizeReport {
  std::vector<PassStats> passes;
};

// Runs the passes on `graph`. Fails when `options.disabled` names no pass, when the graph does not
// verify, or when a pass breaks it (kInternal, with the pass's name); then `graph` is not to be
// used. Value ids stay valid; values that are no longer used remain in values() without a producer.
Result<OptimizeReport> Optimize(Graph& graph, const PassOptions& options);

// Runs one pass by name, whatever the level and `disabled`. Fails as Optimize does.
Result<PassStats> RunPass(Graph& graph, std::string_view name, const PassOptions& options);

}  // namespace tenon

// The options of the routing module, as the block `modules: routing:` of the configuration has
// them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "accel/routing/route_state.h"
#include "base/result.h"

namespace tenon {

enum class RouteScore : uint8_t {
  kTop1,     // probability of the small model's best token
  kMargin,   // less the second one's
  kEntropy,  // 1 - normalised entropy
  kTrained,  // a RouterNet's
};

struct RoutingOptions {
  std::string small;   // the small model: a file, a directory or a name of the store
  std::string router;  // file of `tenon train-router`; needed for, and implies, kTrained
  RouteScore score = RouteScore::kTop1;
  RouteRules rules;
  int64_t max_cache_length = 128;  // decisions remembered
  // One of so many decisions is replayed; 0: none.
  int64_t verify_every = 64;
  int64_t context_tokens = 0;  // KV of the small model; 0: as large as the target's
  // The large model is kept up to date with sequences whose kind needed it this often; above 1:
  // never.
  double preload_need = 0.8;
};

Result<RoutingOptions> ReadRoutingOptions(const std::string& module, const nlohmann::json& options);

}  // namespace tenon

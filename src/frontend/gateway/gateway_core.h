// GatewayCore: the gateway's state, on its loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "frontend/gateway/event_loop.h"
#include "frontend/gateway/gateway_config.h"
#include "frontend/gateway/rate_limiter.h"
#include "frontend/gateway/replica_set.h"
#include "frontend/gateway/upstream_client.h"

namespace tenon {

class Relay;

struct GatewayCounters {
  std::map<int, int64_t> answers;  // to clients, by status
  int64_t retries = 0;             // another replica was asked
  int64_t rate_limited = 0;
  int64_t broken_streams = 0;  // ended with an error event
  int64_t clients_gone = 0;
};

struct GatewayCore {
  explicit GatewayCore(const GatewayConfig& given)
      : config(given), limiter(given.rate_limit, given.key_limits), client(loop) {}

  EventLoop loop;  // first: what it holds goes last
  GatewayConfig config;
  ReplicaSet replicas;
  RateLimiter limiter;
  GatewayCounters counters;
  UpstreamClient client;
  std::unordered_map<const Relay*, std::weak_ptr<Relay>> relays;  // requests under way
};

// Prometheus text format 0.0.4.
std::string MetricsText(const GatewayCore& core);

// {"object":"list","data":[...]}: each model once.
std::string ModelsText(const GatewayCore& core);

}  // namespace tenon

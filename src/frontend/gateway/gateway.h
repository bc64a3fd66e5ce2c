// Gateway: one address before many replicas of `tenon serve` (or of any server with OpenAI's API).
//
// Routes by the model's name, balances by outstanding tokens with prefix affinity, checks health,
// asks another replica while the client has seen nothing, limits rates. Own paths: /health,
// /metrics, /v1/models; all others are handed on. WebSocket and gRPC are not.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "frontend/gateway/gateway_config.h"

namespace tenon {

class Gateway {
 public:
  // Listens at once; /health says 503 until a replica is well.
  static Result<std::unique_ptr<Gateway>> Start(const GatewayConfig& config);
  ~Gateway();  // Stop(0)

  uint16_t port() const;
  // Replicas, keys, limits and times change for the requests that come from now on; open ones go
  // on, also with replicas that have left. The listen section stays as it was. From one thread.
  Status Reload(const GatewayConfig& config);
  // Takes no more requests; returns when open answers are written or the time is over.
  void Stop(std::chrono::milliseconds limit);

 private:
  struct Impl;
  explicit Gateway(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tenon

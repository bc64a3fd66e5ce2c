// GrpcServer: the API over gRPC (proto/tenon/v1/tenon.proto), with the standard health and
// reflection services, without gRPC in the header.
//
// Requests become the jobs of the HTTP API (server/api/), so limits, checks and errors are the
// same. A call's work ends with the call: cancelled, past its deadline, or too slow in reading.
//
// Health says NOT_SERVING while the model loads, when the engine is stuck and at the end. Health
// and reflection ask no key: they tell no more than the published .proto file and /health.
//
// Threading: gRPC's own threads; Stop from any other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/server/api/api_context.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;                    // 0: any free one
  size_t max_message_bytes = 16 << 20;  // of a request; beyond it RESOURCE_EXHAUSTED
  size_t max_backlog_bytes =
      8 << 20;                       // events that a client has not taken; beyond it the call ends
  std::vector<ApiKey> api_keys;      // empty: no key asked
  std::string tls_certificate_file;  // PEM; both empty: without TLS
  std::string tls_key_file;
};

class GrpcServer {
 public:
  // Binds and starts to serve; calls are UNAVAILABLE until `context` has an engine. `context` and
  // its engine must outlive the server's calls. Fails for an address that is taken or unknown and
  // for TLS files that can't be read.
  static Result<std::unique_ptr<GrpcServer>> Start(ApiContext& context,
                                                   const GrpcServerOptions& options);
  virtual ~GrpcServer() = default;  // Stop(0)

  virtual uint16_t port() const = 0;
  // Accepts no more calls; returns when the open ones are over, or the time is and they were
  // cancelled.
  virtual void Stop(std::chrono::milliseconds limit) = 0;
};

}  // namespace tenon

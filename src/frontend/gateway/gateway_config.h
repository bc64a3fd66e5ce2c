// GatewayConfig: what `tenon gateway` is told, by flags or by a YAML file.
//
//   listen: {host: 0.0.0.0, port: 8090}
//   replicas:
//     - url: http://10.0.0.1:8080
//     - {url: https://10.0.0.2:8443, api_key: secret, ca_file: /etc/ssl/replicas.pem}
//   api_keys: [{name: alice, key: secret, requests_per_minute: 60}]
//   rate_limit: {requests_per_minute: 600, burst: 50, tokens_per_minute: 0}
//   health: {interval_ms: 2000, timeout_ms: 5000, failures: 2, successes: 1}
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// Where a replica listens. Names are what its URL says; nothing is looked up here.
struct ReplicaAddress {
  std::string url;  // as given, for messages and metrics
  bool tls = false;
  std::string host;
  uint16_t port = 0;
  std::string path_prefix;  // of the URL, without a last slash
  std::string api_key;      // sent to the replica in place of the client's own; empty: none
  std::string ca_file;      // PEM; empty: the system's authorities

  bool operator==(const ReplicaAddress&) const = default;
};

// 0: no limit.
struct RateLimit {
  double requests_per_minute = 0;
  double tokens_per_minute = 0;  // estimated: a prompt's bytes / 4 and what it may generate
  double burst = 0;              // requests at once; 0: what 10 seconds allow, at least 1
};

struct HealthPolicy {
  std::chrono::milliseconds interval{2000};
  std::chrono::milliseconds timeout{5000};
  int failures = 2;   // in a row, to eject. A refused connection ejects at once.
  int successes = 1;  // in a row, to return
};

struct GatewayConfig {
  HttpServerOptions server;
  std::vector<ReplicaAddress> replicas;
  RateLimit rate_limit;                         // of each key; without keys, of each address
  std::map<std::string, RateLimit> key_limits;  // by the key's name
  HealthPolicy health;
  std::chrono::milliseconds connect_timeout{3000};
  std::chrono::milliseconds answer_timeout{600'000};  // until the answer's first bytes
  std::chrono::milliseconds stream_timeout{120'000};  // between two pieces of an answer
  int max_tries = 3;                                  // replicas asked for one request
  size_t affinity_bytes = 1024;                       // of the prompt, that choose the replica
  // How much busier than the idlest one a replica may be to get a request by affinity.
  int64_t affinity_slack_tokens = 4096;
};

// http:// and https:// URLs with an optional path. `place` names the flag or field in errors.
Result<ReplicaAddress> ParseReplicaUrl(std::string_view url, std::string_view place);

// Fails for unknown fields and wrong types, naming the line.
Result<GatewayConfig> ParseGatewayConfig(const std::string& yaml, const std::string& place);

// Tells what is missing or contradicts itself.
Status CheckGatewayConfig(const GatewayConfig& config);

}  // namespace tenon

// Flags of `tenon serve`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/cli/model_flags.h"
#include "frontend/cli/module_flags.h"
#include "frontend/server/api/api_context.h"
#include "frontend/server/grpc/grpc_server.h"
#include "frontend/server/http/http_server.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

struct ServeFlags {
  ModelFlags model;
  ModuleFlags modules;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  uint16_t grpc_port = 0;  // 0: no gRPC
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::optional<int64_t> parallel;  // absent: 32
  int64_t queue_limit = 512;
  std::optional<int64_t> batch_window_ms;  // absent: 50
  int64_t batch_threshold = 0;             // of the configuration alone, as the next one
  int64_t warmup_steps = 4;
  std::string policy = "continuous";
  std::vector<std::string> aliases;
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;
  std::string tls_certificate;
  std::string tls_key;
  bool metrics_aliases = false;
  int64_t stuck_after_s = 30;
  int64_t request_timeout_s = 0;
  int64_t drain_timeout_s = 30;
  std::string slot_save_path;
  std::string preemption;  // empty: recompute
  int64_t checkpoint_interval = 4;
  bool log_content = false;
  bool client_priority = false;
  bool quiet = false;

  void Add(CLI::App& app);

  // Takes over what the configuration says about scheduling and recomputation. Fails, naming both,
  // where a flag says something else, and naming the field where it can't be kept.
  Status Take(const ModuleConfig& config);
  int64_t max_batch() const { return parallel.value_or(kMaxBatch); }
  static constexpr int64_t kMaxBatch = 32;

  // Keys of the flags, the file and the environment, without repetition.
  Result<std::vector<ApiKey>> ApiKeys() const;
  Result<HttpServerOptions> ToHttpOptions() const;
  // With the address, keys and TLS files of `http`.
  GrpcServerOptions ToGrpcOptions(const HttpServerOptions& http) const;
  ServingOptions ToServingOptions(const LoadOptions& load) const;
  ApiOptions ToApiOptions(const std::filesystem::path& model_path) const;
};

}  // namespace tenon

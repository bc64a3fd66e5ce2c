// `tenon gateway`: one address before many `tenon serve`.
#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "frontend/cli/command.h"
#include "frontend/gateway/gateway.h"

namespace tenon {
namespace {

constexpr uint16_t kDefaultPort = 8090;
constexpr uint64_t kMaxConfigBytes = 1 << 20;
// How long open answers may go on after SIGTERM.
constexpr std::chrono::seconds kDrainTime{30};

struct GatewayFlags {
  std::vector<std::string> replicas;
  std::string config_file;
  std::string host;
  int port = -1;  // -1: not given
  std::vector<std::string> api_keys;
  std::vector<std::string> allowed_hosts;
  double requests_per_minute = -1;
};

void AddKeys(const std::vector<std::string>& keys, GatewayConfig& config) {
  for (const std::string& key : keys) {
    const std::string name = fmt::format("key-{}", config.server.api_keys.size() + 1);
    config.server.api_keys.push_back(ApiKey{name, key});
  }
}

// The file's settings, then the flags'.
Result<GatewayConfig> ReadConfig(const GatewayFlags& flags) {
  GatewayConfig config;
  config.server.port = kDefaultPort;
  if (!flags.config_file.empty()) {
    TENON_ASSIGN_OR_RETURN(const std::string text,
                           ReadWholeFile(flags.config_file, kMaxConfigBytes));
    TENON_ASSIGN_OR_RETURN(config, ParseGatewayConfig(text, flags.config_file));
    if (config.server.port == 0)
      config.server.port = kDefaultPort;
  }
  for (const std::string& url : flags.replicas) {
    TENON_ASSIGN_OR_RETURN(ReplicaAddress replica, ParseReplicaUrl(url, "--replica"));
    config.replicas.push_back(std::move(replica));
  }
  if (!flags.host.empty())
    config.server.host = flags.host;
  if (flags.port >= 0)
    config.server.port = static_cast<uint16_t>(flags.port);
  AddKeys(flags.api_keys, config);
  for (const std::string& host : flags.allowed_hosts)
    config.server.allowed_hosts.push_back(host);
  if (flags.requests_per_minute >= 0)
    config.rate_limit.requests_per_minute = flags.requests_per_minute;
  return config;
}

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&signals, signal);
  return signals;
}

void Reload(const GatewayFlags& flags, Gateway& gateway) {
  const auto config = ReadConfig(flags);
  const Status status = config.ok() ? gateway.Reload(*config) : Status(config.error());
  if (status.ok())
    fmt::print(stderr, "gateway: {} replicas after the reload\n", config->replicas.size());
  else
    fmt::print(stderr, "gateway: not reloaded: {}\n", status.error().ToString());
}

Status RunGateway(const GatewayFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const GatewayConfig config, ReadConfig(flags));
  // Before any thread is made: they inherit the mask, and only sigwait takes the signals.
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Gateway> gateway, Gateway::Start(config));
  fmt::print(stderr, "gateway: {} replicas behind {}://{}:{}\n", config.replicas.size(),
             config.server.tls_key_file.empty() ? "http" : "https", config.server.host,
             gateway->port());
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0)
      return MakeError(ErrorCode::kInternal, "can't wait for signals");
    if (signal != SIGHUP)
      break;
    Reload(flags, *gateway);
  }
  fmt::print(stderr, "gateway: stops when open answers are done\n");
  gateway->Stop(kDrainTime);
  return {};
}

}  // namespace

CommandBody DefineGateway(CLI::App& app) {
  auto flags = std::make_shared<GatewayFlags>();
  app.add_option("--replica", flags->replicas,
                 "URL of a replica, such as http://host:8080; repeat");
  app.add_option("--config", flags->config_file, "YAML file; read again on SIGHUP");
  app.add_option("--host", flags->host, "Address to listen on (127.0.0.1)");
  app.add_option("--port", flags->port, "Port to listen on (8090; 0: any free one)")
      ->check(CLI::Range(0, 65535));
  app.add_option("--api-key", flags->api_keys, "Key that clients must send; repeat")
      ->envname("TENON_GATEWAY_API_KEY");
  app.add_option("--allowed-host", flags->allowed_hosts, "Host name that clients may use; repeat");
  app.add_option("--requests-per-minute", flags->requests_per_minute, "Limit of each client")
      ->check(CLI::NonNegativeNumber);
  return [flags] { return RunGateway(*flags); };
}

}  // namespace tenon

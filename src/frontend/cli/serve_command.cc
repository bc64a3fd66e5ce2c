// `tenon serve`: one model over HTTP and WebSocket.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "base/log.h"
#include "frontend/cli/command.h"
#include "frontend/cli/serve_flags.h"
#include "frontend/cli/shutdown_signal.h"
#include "frontend/page/page_routes.h"
#include "frontend/server/api/routes.h"
#include "frontend/serving/served_modules.h"

namespace tenon {
namespace {

// Without -c: room for a few conversations of this length, as long as that is a small part of the
// memory that is free. Sequences share it: 32 of them get 512 tokens each, one may use 4096.
constexpr int64_t kConversationTokens = 4096;
constexpr int64_t kConversations = 4;
constexpr int64_t kMemoryShare = 4;  // KV may take a quarter

// Open streams get so long to be written when the server ends.
constexpr std::chrono::milliseconds kFlushTime{2000};

// Lines with the time in front, on standard error.
class ServeLog final : public LogSink {
 public:
  void Write(LogLevel level, std::string_view message) override {
    const auto now =
        std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
    const auto milliseconds = now.time_since_epoch().count() % 1000;
    fmt::print(stderr, "{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} {}\n",
               fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds,
               LogLevelName(level), message);
  }
};

// Installs the log for as long as the server runs.
class LogScope {
 public:
  LogScope(LogSink& sink, LogLevel minimum) { SetLogSink(&sink, minimum); }
  ~LogScope() { SetLogSink(nullptr, LogLevel::kError); }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
};

Result<int64_t> DefaultContext(Model& model, LoadOptions options) {
  const int64_t one = std::min(kConversationTokens, model.source().config.context_length);
  options.context_tokens = one * kConversations;
  TENON_RETURN_IF_ERROR(model.Prepare(options));
  const int64_t bytes = model.runner().Needs(1).kv;
  const int64_t allowed = AvailableMemoryBytes() / kMemoryShare;
  if (allowed == 0 || bytes <= allowed)
    return options.context_tokens;
  const double fits = static_cast<double>(allowed) / static_cast<double>(bytes);
  return std::max(one, static_cast<int64_t>(static_cast<double>(options.context_tokens) * fits));
}

Status LoadForServing(Model& model, LoadOptions options) {
  if (options.context_tokens == 0) {
    TENON_ASSIGN_OR_RETURN(options.context_tokens, DefaultContext(model, options));
  }
  return model.Load(options);
}

std::string UrlOf(const ServeFlags& flags, uint16_t port) {
  const std::string host =
      flags.host.find(':') == std::string::npos ? flags.host : fmt::format("[{}]", flags.host);
  return fmt::format("{}://{}:{}", flags.tls_certificate.empty() ? "http" : "https", host, port);
}

void WarnIfOpen(const ServeFlags& flags, const HttpServerOptions& http) {
  const bool loopback =
      flags.host == "localhost" || flags.host == "::1" || flags.host.starts_with("127.");
  if (!loopback && http.api_keys.empty())
    Log(LogLevel::kWarning, "{} is reachable from outside and no API key is asked", flags.host);
}

// Null without --grpc-port.
Result<std::unique_ptr<GrpcServer>> StartGrpc(const ServeFlags& flags,
                                              const HttpServerOptions& http, ApiContext& context) {
  if (flags.grpc_port == 0)
    return std::unique_ptr<GrpcServer>();
  TENON_ASSIGN_OR_RETURN(auto server, GrpcServer::Start(context, flags.ToGrpcOptions(http)));
  fmt::print(stderr, "gRPC on port {}\n", server->port());
  return server;
}

// Null without a file, or without modules.
std::unique_ptr<ConfigFollower> FollowConfig(const ServeFlags& flags, ModuleControl* control,
                                             const ModuleConfig& config) {
  if (control == nullptr || flags.modules.config.empty())
    return nullptr;
  return std::make_unique<ConfigFollower>(flags.modules.config, *control, config);
}

// Who reads that the server is ready may ask /health at once.
void WaitUntilWarm(const ServingEngine& engine) {
  while (engine.health() == Health::kStarting)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

Status Serve(const ServeFlags& given) {
  ServeFlags flags = given;
  ShutdownSignal shutdown;
  ServeLog log;
  const LogScope log_scope(log, flags.quiet ? LogLevel::kWarning : LogLevel::kInfo);
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, flags.model.Path());
  TENON_ASSIGN_OR_RETURN(auto model, Model::Open(path));
  TENON_ASSIGN_OR_RETURN(LoadOptions load, flags.model.ToLoadOptions());
  TENON_ASSIGN_OR_RETURN(const ModuleConfig config, flags.modules.ToConfig());
  TENON_RETURN_IF_ERROR(flags.Take(config));
  load.batch_outputs = std::max(load.batch_outputs, flags.max_batch());
  load.sequences = flags.max_batch();
  load.weight_cache_options.pages = WeightPages::kCopied;
  if (flags.max_batch() > load.batch_tokens)
    return InvalidArgument(fmt::format("{} sequences need as many tokens in a step; -b is {}",
                                       flags.max_batch(), load.batch_tokens),
                           "--parallel");
  TENON_RETURN_IF_ERROR(ApplyToLoad(config, load));
  TENON_ASSIGN_OR_RETURN(const HttpServerOptions http_options, flags.ToHttpOptions());
  // /health is answered while the model loads.
  ApiContext context(flags.ToApiOptions(path));
  Router router;
  AddApiRoutes(context, router);
  AddPageRoutes(router);
  TENON_ASSIGN_OR_RETURN(auto http, HttpServer::Start(http_options, std::move(router)));
  TENON_ASSIGN_OR_RETURN(auto grpc, StartGrpc(flags, http_options, context));
  const std::string url = UrlOf(flags, http->port());
  fmt::print(stderr, "{} (loading {})\n", url, context.model_name());
  WarnIfOpen(flags, http_options);
  TENON_RETURN_IF_ERROR(LoadForServing(*model, load));
  TENON_ASSIGN_OR_RETURN(const auto modules, ServedModules::Create(*model, config));
  TENON_ASSIGN_OR_RETURN(
      auto engine, ServingEngine::Start(*model, flags.ToServingOptions(load), &context.metrics(),
                                        modules != nullptr ? &modules->steps() : nullptr));
  const auto control = modules != nullptr ? modules->Control(*engine) : nullptr;
  const auto follower = FollowConfig(flags, control.get(), config);
  context.SetModules(control.get());
  context.SetEngine(engine.get());
  shutdown.SetReady();
  WaitUntilWarm(*engine);
  fmt::print(stderr, "{} is ready: {} tokens of KV cache, {} sequences at once\n", url,
             model->context_tokens(), flags.max_batch());
  shutdown.Wait();
  fmt::print(stderr, "ending: no new requests; a second signal ends at once\n");
  engine->Drain(std::chrono::seconds(flags.drain_timeout_s));
  http->Stop(kFlushTime);
  if (grpc != nullptr)
    grpc->Stop(kFlushTime);
  context.work().Stop();
  return {};
}

}  // namespace

CommandBody DefineServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  flags->Add(app);
  return [flags] { return Serve(*flags); };
}

}  // namespace tenon

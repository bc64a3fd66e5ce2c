#include "frontend/gateway/gateway.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "frontend/gateway/gateway_core.h"
#include "frontend/gateway/health_monitor.h"
#include "frontend/gateway/relay.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

struct Gateway::Impl {
  explicit Impl(const GatewayConfig& config) : core(config), monitor(core) {}

  using Writer = std::shared_ptr<ResponseWriter>;
  using Own = HttpResponse (Impl::*)(const HttpRequest&);

  Router MakeRouter();
  // Answers on the loop, where the state is.
  HttpHandler Handler(Own own);
  HttpHandler RelayHandler();
  HttpResponse Health(const HttpRequest& request);
  HttpResponse Metrics(const HttpRequest& request);
  HttpResponse Models(const HttpRequest& request);
  HttpResponse Model(const HttpRequest& request);

  GatewayCore core;
  HealthMonitor monitor;
  std::unique_ptr<HttpServer> server;
  bool stopped = false;
};

HttpResponse Gateway::Impl::Health(const HttpRequest& /*request*/) {
  const auto& all = core.replicas.all();
  const auto up = std::count_if(all.begin(), all.end(),
                                [](const ReplicaSet::Pointer& replica) { return replica->up; });
  const nlohmann::json body = {{"status", up > 0 ? "ok" : "no replica is available"},
                               {"replicas", all.size()},
                               {"replicas_up", up}};
  HttpResponse response;
  response.status = up > 0 ? 200 : 503;
  response.body = body.dump();
  return response;
}

HttpResponse Gateway::Impl::Metrics(const HttpRequest& /*request*/) {
  return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", MetricsText(core), {}};
}

HttpResponse Gateway::Impl::Models(const HttpRequest& /*request*/) {
  return HttpResponse{200, "application/json", ModelsText(core), {}};
}

HttpResponse Gateway::Impl::Model(const HttpRequest& request) {
  const std::string& id = request.parameters.at("id");
  for (const auto& replica : core.replicas.all()) {
    if (const auto found = replica->models.find(id); found != replica->models.end())
      return HttpResponse{200, "application/json", found->second, {}};
  }
  return ErrorResponse(404, "no replica serves the model '" + id + "'", "invalid_request_error",
                       "model", "model_not_found");
}

HttpHandler Gateway::Impl::Handler(Own own) {
  return [this, own](HttpRequest request, Writer writer) {
    core.loop.Post([this, own, request = std::move(request), writer = std::move(writer)] {
      writer->Send((this->*own)(request));
    });
  };
}

HttpHandler Gateway::Impl::RelayHandler() {
  return [this](HttpRequest request, Writer writer) {
    auto relay = std::make_shared<Relay>(core, std::move(request), std::move(writer));
    core.loop.Post([relay = std::move(relay)] { relay->Start(); });
  };
}

Router Gateway::Impl::MakeRouter() {
  Router router;
  router.Add("GET", "/health", Handler(&Impl::Health), Router::Access::kPublic);
  router.Add("GET", "/metrics", Handler(&Impl::Metrics));
  router.Add("GET", "/v1/models", Handler(&Impl::Models));
  router.Add("GET", "/v1/models/{id...}", Handler(&Impl::Model));
  for (const char* method : {"GET", "POST", "PUT", "DELETE"})
    router.Add(method, "/{path...}", RelayHandler());
  return router;
}

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Gateway::~Gateway() {
  Stop(std::chrono::milliseconds(0));
}

uint16_t Gateway::port() const {
  return impl_->server->port();
}

Result<std::unique_ptr<Gateway>> Gateway::Start(const GatewayConfig& config) {
  TENON_RETURN_IF_ERROR(CheckGatewayConfig(config));
  auto impl = std::make_unique<Impl>(config);
  impl->core.loop.Run([&] {
    impl->core.replicas.Replace(config.replicas);
    impl->monitor.Watch();
  });
  auto server = HttpServer::Start(config.server, impl->MakeRouter());
  if (!server.ok()) {
    impl->core.loop.Stop();
    return std::move(server).error();
  }
  impl->server = *std::move(server);
  return std::unique_ptr<Gateway>(new Gateway(std::move(impl)));
}

Status Gateway::Reload(const GatewayConfig& config) {
  TENON_RETURN_IF_ERROR(CheckGatewayConfig(config));
  Impl& impl = *impl_;
  impl.core.loop.Run([&] {
    impl.core.config = config;
    impl.core.replicas.Replace(config.replicas);
    impl.core.limiter.ChangeLimits(config.rate_limit, config.key_limits);
    impl.monitor.Watch();
  });
  impl.server->ReplaceKeys(config.server.api_keys);
  return {};
}

void Gateway::Stop(std::chrono::milliseconds limit) {
  if (std::exchange(impl_->stopped, true))
    return;
  impl_->server->Stop(limit);
  impl_->core.loop.Run([this] {
    const auto relays = impl_->core.relays;
    for (const auto& [key, weak] : relays) {
      if (const auto relay = weak.lock())
        relay->Abort();
    }
  });
  impl_->core.loop.Stop();
}

}  // namespace tenon

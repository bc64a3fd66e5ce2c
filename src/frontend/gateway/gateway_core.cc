#include "frontend/gateway/gateway_core.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace tenon {
namespace {

std::string Escape(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"')
      escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

void AppendFamily(std::string& text, std::string_view name, std::string_view type,
                  std::string_view help) {
  text +=
      fmt::format("# HELP tenon_gateway_{0} {2}\n# TYPE tenon_gateway_{0} {1}\n", name, type, help);
}

void AppendValue(std::string& text, std::string_view name, int64_t value,
                 std::string_view labels = {}) {
  text += fmt::format("tenon_gateway_{}{} {}\n", name, labels, value);
}

using ReplicaValue = std::function<int64_t(const Replica&)>;

void AppendReplicas(std::string& text, const GatewayCore& core, std::string_view name,
                    const ReplicaValue& value) {
  for (const auto& replica : core.replicas.all())
    AppendValue(text, name, value(*replica),
                fmt::format("{{replica=\"{}\"}}", Escape(replica->address.url)));
}

void AppendCounters(std::string& text, const GatewayCounters& counters) {
  AppendFamily(text, "requests_total", "counter", "Answers to clients by status.");
  for (const auto& [status, count] : counters.answers)
    AppendValue(text, "requests_total", count, fmt::format("{{status=\"{}\"}}", status));
  AppendFamily(text, "retries_total", "counter", "Requests given to another replica.");
  AppendValue(text, "retries_total", counters.retries);
  AppendFamily(text, "rate_limited_total", "counter", "Requests refused by a rate limit.");
  AppendValue(text, "rate_limited_total", counters.rate_limited);
  AppendFamily(text, "broken_streams_total", "counter", "Streams ended by a replica's failure.");
  AppendValue(text, "broken_streams_total", counters.broken_streams);
  AppendFamily(text, "clients_gone_total", "counter", "Requests whose client left.");
  AppendValue(text, "clients_gone_total", counters.clients_gone);
}

}  // namespace

std::string MetricsText(const GatewayCore& core) {
  std::string text;
  AppendCounters(text, core.counters);
  AppendFamily(text, "replica_up", "gauge", "1 if the replica takes requests.");
  AppendReplicas(text, core, "replica_up", [](const Replica& r) { return r.up ? 1 : 0; });
  AppendFamily(text, "replica_outstanding_tokens", "gauge", "Estimated tokens yet to be made.");
  AppendReplicas(text, core, "replica_outstanding_tokens",
                 [](const Replica& r) { return r.outstanding_tokens; });
  AppendFamily(text, "replica_outstanding_requests", "gauge", "Requests under way.");
  AppendReplicas(text, core, "replica_outstanding_requests",
                 [](const Replica& r) { return r.outstanding_requests; });
  AppendFamily(text, "replica_ejections_total", "counter", "Times that the replica was ejected.");
  AppendReplicas(text, core, "replica_ejections_total",
                 [](const Replica& r) { return r.ejections; });
  AppendFamily(text, "replica_answers_total", "counter", "Answers of replicas by status.");
  for (const auto& replica : core.replicas.all()) {
    for (const auto& [status, count] : replica->answers)
      AppendValue(
          text, "replica_answers_total", count,
          fmt::format("{{replica=\"{}\",status=\"{}\"}}", Escape(replica->address.url), status));
  }
  return text;
}

std::string ModelsText(const GatewayCore& core) {
  using nlohmann::json;
  std::map<std::string, json> models;
  for (const auto& replica : core.replicas.all()) {
    for (const auto& [id, text] : replica->models)
      models.try_emplace(id, json::parse(text, nullptr, false));
  }
  json list = {{"object", "list"}, {"data", json::array()}};
  for (auto& [id, model] : models)
    list["data"].push_back(std::move(model));
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tenon

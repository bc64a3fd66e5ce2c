#include "frontend/gateway/gateway_config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <functional>
#include <limits>
#include <set>
#include <utility>

namespace tenon {
namespace {

// Reads the fields of one YAML map; the first error is kept and names its line.
class MapReader {
 public:
  MapReader(const YAML::Node& node, std::string place) : node_(node), place_(std::move(place)) {
    if (!node.IsMap())
      Fail(node, "expected a map");
  }

  template <class T>
  void Read(const char* name, T& target) {
    const YAML::Node value = Find(name);
    if (!value)
      return;
    try {
      target = value.as<T>();
    } catch (const YAML::Exception&) {
      Fail(value, fmt::format("'{}' has the wrong type", name));
    }
  }

  void ReadMilliseconds(const char* name, std::chrono::milliseconds& target) {
    int64_t count = target.count();
    Read(name, count);
    if (count <= 0 || count > std::numeric_limits<int32_t>::max())
      Fail(node_, fmt::format("'{}' must be from 1 to 2147483647", name));
    target = std::chrono::milliseconds(count);
  }

  void ReadMap(const char* name, const std::function<void(MapReader&)>& read) {
    if (const YAML::Node value = Find(name))
      ReadNested(value, read);
  }

  void ReadList(const char* name, const std::function<void(MapReader&)>& read) {
    const YAML::Node list = Find(name);
    if (!list)
      return;
    if (!list.IsSequence())
      return Fail(list, fmt::format("'{}' must be a list", name));
    for (const YAML::Node& entry : list)
      ReadNested(entry, read);
  }

  void Fail(std::string message) { Fail(node_, std::move(message)); }
  void Keep(const Status& status) {
    if (!status.ok() && status_.ok())
      status_ = status;
  }
  std::string Place() const { return Place(node_); }

  // The first error; fields that nobody asked for are errors.
  Status Finish() {
    if (!status_.ok() || !node_.IsMap())
      return status_;
    for (const auto& entry : node_) {
      const std::string name = entry.first.as<std::string>("");
      if (!known_.contains(name))
        Fail(entry.first, fmt::format("unknown field '{}'", name));
    }
    return status_;
  }

 private:
  YAML::Node Find(const char* name) {
    known_.insert(name);
    return node_.IsMap() ? node_[name] : YAML::Node(YAML::NodeType::Undefined);
  }
  void ReadNested(const YAML::Node& node, const std::function<void(MapReader&)>& read) {
    MapReader nested(node, place_);
    if (nested.status_.ok())
      read(nested);
    Keep(nested.Finish());
  }
  std::string Place(const YAML::Node& node) const {
    return fmt::format("{}:{}", place_, node.Mark().line + 1);
  }
  void Fail(const YAML::Node& node, std::string message) {
    Keep(InvalidArgument(std::move(message), Place(node)));
  }

  const YAML::Node node_;
  const std::string place_;
  std::set<std::string> known_;
  Status status_;
};

void ReadLimit(MapReader& map, RateLimit& limit) {
  map.Read("requests_per_minute", limit.requests_per_minute);
  map.Read("tokens_per_minute", limit.tokens_per_minute);
  map.Read("burst", limit.burst);
  if (!(limit.requests_per_minute >= 0 && limit.tokens_per_minute >= 0 && limit.burst >= 0))
    map.Fail("rates can't be negative");
}

void ReadReplica(MapReader& map, std::vector<ReplicaAddress>& replicas) {
  std::string url;
  std::string api_key;
  std::string ca_file;
  map.Read("url", url);
  map.Read("api_key", api_key);
  map.Read("ca_file", ca_file);
  auto address = ParseReplicaUrl(url, map.Place());
  if (!address.ok())
    return map.Keep(address.error());
  address->api_key = api_key;
  address->ca_file = ca_file;
  replicas.push_back(*std::move(address));
}

void ReadKey(MapReader& map, GatewayConfig& config) {
  ApiKey key;
  RateLimit limit = config.rate_limit;
  map.Read("name", key.name);
  map.Read("key", key.key);
  ReadLimit(map, limit);
  if (key.name.empty() || key.key.empty())
    map.Fail("an API key needs a name and a key");
  config.key_limits[key.name] = limit;
  config.server.api_keys.push_back(std::move(key));
}

void ReadHealth(MapReader& map, HealthPolicy& health) {
  map.ReadMilliseconds("interval_ms", health.interval);
  map.ReadMilliseconds("timeout_ms", health.timeout);
  map.Read("failures", health.failures);
  map.Read("successes", health.successes);
  if (health.failures < 1 || health.successes < 1)
    map.Fail("'failures' and 'successes' must be at least 1");
}

void ReadListen(MapReader& map, HttpServerOptions& server) {
  map.Read("host", server.host);
  map.Read("port", server.port);
  map.Read("tls_certificate", server.tls_certificate_file);
  map.Read("tls_key", server.tls_key_file);
  map.Read("allowed_hosts", server.allowed_hosts);
  map.Read("cors_origins", server.cors_origins);
  map.Read("max_connections", server.max_connections);
  map.Read("max_body_bytes", server.max_body_bytes);
}

void ReadRoot(MapReader& root, GatewayConfig& config) {
  root.ReadMap("listen", [&](MapReader& map) { ReadListen(map, config.server); });
  root.ReadList("replicas", [&](MapReader& map) { ReadReplica(map, config.replicas); });
  root.ReadMap("rate_limit", [&](MapReader& map) { ReadLimit(map, config.rate_limit); });
  root.ReadList("api_keys", [&](MapReader& map) { ReadKey(map, config); });
  root.ReadMap("health", [&](MapReader& map) { ReadHealth(map, config.health); });
  root.ReadMilliseconds("connect_timeout_ms", config.connect_timeout);
  root.ReadMilliseconds("answer_timeout_ms", config.answer_timeout);
  root.ReadMilliseconds("stream_timeout_ms", config.stream_timeout);
  root.Read("max_tries", config.max_tries);
  root.Read("affinity_bytes", config.affinity_bytes);
  root.Read("affinity_slack_tokens", config.affinity_slack_tokens);
}

}  // namespace

Result<ReplicaAddress> ParseReplicaUrl(std::string_view url, std::string_view place) {
  const auto fail = [&](std::string_view why) {
    return InvalidArgument(fmt::format("'{}' is not a replica's URL: {}", url, why),
                           std::string(place));
  };
  const auto parsed = boost::urls::parse_uri({url.data(), url.size()});
  if (!parsed)
    return fail("expected http://host:port");
  const boost::urls::url_view& view = *parsed;
  ReplicaAddress address;
  address.url = std::string(url);
  address.tls = view.scheme_id() == boost::urls::scheme::https;
  if (!address.tls && view.scheme_id() != boost::urls::scheme::http)
    return fail("the scheme must be http or https");
  if (view.has_userinfo() || view.has_query() || view.has_fragment())
    return fail("a user, query or fragment has no meaning here");
  address.host = std::string(view.host_address());
  address.port =
      view.has_port() ? view.port_number() : static_cast<uint16_t>(address.tls ? 443 : 80);
  if (address.host.empty() || address.port == 0)
    return fail("a host and a port are needed");
  address.path_prefix = std::string(view.encoded_path().data(), view.encoded_path().size());
  while (address.path_prefix.ends_with('/'))
    address.path_prefix.pop_back();
  return address;
}

Result<GatewayConfig> ParseGatewayConfig(const std::string& yaml, const std::string& place) {
  GatewayConfig config;
  try {
    MapReader root(YAML::Load(yaml), place);
    ReadRoot(root, config);
    TENON_RETURN_IF_ERROR(root.Finish());
  } catch (const YAML::Exception& error) {
    return InvalidArgument(error.msg, fmt::format("{}:{}", place, error.mark.line + 1));
  }
  return config;
}

Status CheckGatewayConfig(const GatewayConfig& config) {
  if (config.replicas.empty())
    return InvalidArgument("a gateway needs at least one replica");
  std::set<std::string> urls;
  for (const ReplicaAddress& replica : config.replicas) {
    if (!urls.insert(replica.url).second)
      return InvalidArgument("the replica is listed twice", replica.url);
  }
  if (config.max_tries < 1)
    return InvalidArgument("must be at least 1", "max_tries");
  return {};
}

}  // namespace tenon

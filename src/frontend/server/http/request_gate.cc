#include "frontend/server/http/request_gate.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace tenon {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// "Example.com:80" -> "example.com", "[::1]:80" -> "::1", "::1" -> "::1". A last dot is dropped:
// "localhost." names the same host.
std::string HostName(std::string_view host) {
  if (host.starts_with('[')) {
    host.remove_prefix(1);
    return Lower(host.substr(0, host.find(']')));
  }
  if (std::count(host.begin(), host.end(), ':') == 1)
    host = host.substr(0, host.find(':'));
  if (host.ends_with('.'))
    host.remove_suffix(1);
  return Lower(host);
}

bool IsAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "::1")
    return true;
  return host.starts_with("127.") && IsAddress(host);
}

std::string_view StripScheme(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

// The token of "Bearer TOKEN"; the scheme's case does not matter (RFC 9110 section 11.1).
std::string_view BearerToken(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (Lower(value.substr(0, kScheme.size())) != kScheme)
    return {};
  value.remove_prefix(kScheme.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

}  // namespace

RequestGate::RequestGate(const HttpServerOptions& options) {
  for (const std::string& host : options.allowed_hosts) {
    any_host_ = any_host_ || host == "*";
    hosts_.push_back(HostName(host));
  }
  const std::string bound = HostName(options.host);
  any_address_ = bound.empty() || bound == "0.0.0.0" || bound == "::";
  hosts_.push_back(bound);
  for (const std::string& origin : options.cors_origins)
    origins_.push_back(Lower(origin));
  for (const ApiKey& key : options.api_keys) {
    Key entry{key.name, {}};
    SHA256(reinterpret_cast<const unsigned char*>(key.key.data()), key.key.size(),
           entry.digest.data());
    keys_.push_back(std::move(entry));
  }
}

bool RequestGate::HostAllowed(std::string_view host) const {
  const std::string name = HostName(host);
  if (name.empty())
    return false;
  if (any_host_ || IsLoopback(name) || (any_address_ && IsAddress(name)))
    return true;
  return std::find(hosts_.begin(), hosts_.end(), name) != hosts_.end();
}

bool RequestGate::OriginListed(std::string_view origin) const {
  const std::string lower = Lower(origin);
  return std::any_of(origins_.begin(), origins_.end(),
                     [&](const std::string& listed) { return listed == "*" || listed == lower; });
}

bool RequestGate::OriginAllowed(std::string_view origin, std::string_view host) const {
  const std::string_view own = StripScheme(origin);
  return (!own.empty() && Lower(own) == Lower(host)) || OriginListed(origin);
}

std::optional<std::string> RequestGate::MatchKey(std::string_view key) const {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  std::optional<std::string> name;
  for (const Key& entry : keys_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0)
      name = entry.name;
  }
  return name;
}

std::optional<std::string> RequestGate::FindKey(const HttpHeaders& headers) const {
  if (keys_.empty())
    return "";
  if (const auto bearer = headers.find(std::string_view("Authorization"));
      bearer != headers.end()) {
    if (auto name = MatchKey(BearerToken(bearer->second)))
      return name;
  }
  if (const auto header = headers.find(std::string_view("x-api-key")); header != headers.end())
    return MatchKey(header->second);
  return std::nullopt;
}

}  // namespace tenon

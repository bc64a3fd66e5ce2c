// RequestGate: who may ask. Host allow-list against DNS rebinding, Origin check against requests
// that a foreign web page makes, API keys.
//
// All text is untrusted. Threading: immutable.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/server/http/http_server.h"

namespace tenon {

class RequestGate {
 public:
  explicit RequestGate(const HttpServerOptions& options);

  // `host` as in the header, with or without a port. True for loopback names, for the address that
  // the server is bound to, and for listed names. A server on all addresses takes any address in
  // figures: rebinding needs a name.
  bool HostAllowed(std::string_view host) const;

  // True for pages of this server itself (same host and port as `host`) and for listed origins.
  bool OriginAllowed(std::string_view origin, std::string_view host) const;

  // True if `origin` is listed, so that its pages may read the answers.
  bool OriginListed(std::string_view origin) const;
  bool cors() const { return !origins_.empty(); }

  // The name of the key in Authorization or x-api-key; nullopt if there is none or a wrong one.
  // Empty if no keys are asked. The time does not depend on how much of a key was right.
  std::optional<std::string> FindKey(const HttpHeaders& headers) const;

 private:
  using Digest = std::array<unsigned char, 32>;  // SHA-256: hides the length too
  struct Key {
    std::string name;
    Digest digest;
  };
  std::optional<std::string> MatchKey(std::string_view key) const;

  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
  std::vector<Key> keys_;
  bool any_host_ = false;
  bool any_address_ = false;
};

}  // namespace tenon

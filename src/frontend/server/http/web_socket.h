// WebSocket sessions (RFC 6455) on Beast: text messages, pings of the protocol's own, close
// handshakes, size limits.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>

#include "frontend/server/http/service.h"
#include "frontend/server/http/transport.h"

namespace tenon {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

// Takes the transport over and answers the handshake `upgrade`. Called on the transport's strand.
void StartWebSocket(const std::shared_ptr<Service>& service, std::unique_ptr<Transport> transport,
                    UpgradeRequest upgrade, HttpRequest request, const WebSocketFactory& factory);

}  // namespace tenon

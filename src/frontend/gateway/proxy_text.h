// The words of a proxy: headers that go on, pieces of streams that are whole, errors in the form of
// the API that was asked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/gateway/gateway_config.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// Whom a key in the client's request is meant for: the gateway where it has keys of its own.
enum class ClientKey : uint8_t { kForGateway, kForReplica };

// What a replica is told of the client's request. Headers of the connection (RFC 9110 section
// 7.6.1) stay here, and so does what was checked here: Host, Origin, the gateway's API keys. A
// replica's own key takes the place of the client's.
HttpHeaders HeadersToReplica(const HttpRequest& request, const ReplicaAddress& replica,
                             ClientKey client_key);

// What the client is told of a replica's answer.
HttpHeaders HeadersToClient(const HttpHeaders& headers);

// How an answer's body is made of pieces that a client can use alone.
enum class BodyForm : uint8_t {
  kWhole,   // one document
  kEvents,  // text/event-stream
  kLines,   // JSON, one object a line
};
BodyForm FormOf(std::string_view content_type);

// How many bytes at the beginning of `text` are whole events or lines.
size_t WholePieces(std::string_view text, BodyForm form);

// Events in `text`, which is whole ones; comments (pings) don't count.
int64_t CountEvents(std::string_view text, BodyForm form);

// A stream's last piece when it can't go on. `path`: of the request, which tells the API.
std::string ErrorPiece(std::string_view message, BodyForm form, std::string_view path);

}  // namespace tenon

// The API over one WebSocket: many requests at once, each with an id of the client's.
//
// Messages of the client:
//   {"id", "type": "chat" | "completion", "request": {a body of /v1/chat/completions or
//    /v1/completions}}
//   {"id", "type": "cancel"}
// Messages of the server, each with the id:
//   {"type": "answer", "data"}          without "stream": the whole body
//   {"type": "chunk", "data"}           with "stream": as the SSE events
//   {"type": "done"}                    the end of either
//   {"type": "error", "status", "error"}  in the place of an answer, or of the rest of it
// Closing the connection cancels all of its requests. A client that falls too far behind is closed.
#pragma once

#include "frontend/server/api/api_context.h"
#include "frontend/server/http/http_server.h"

namespace tenon {

// `context` must outlive the connections.
WebSocketFactory MakeWebSocketApi(ApiContext& context);

}  // namespace tenon

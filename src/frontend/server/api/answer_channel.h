// AnswerChannel: the way an answer takes to its client: one JSON body, server-sent events, lines of
// JSON, or messages of a WebSocket.
//
// Either SendWhole, or BeginEvents, SendEvent any number of times, EndEvents. SendError ends both.
// Threading: one call at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "frontend/server/api/api_error.h"
#include "frontend/server/api/json.h"

namespace tenon {

class AnswerChannel {
 public:
  virtual ~AnswerChannel() = default;
  virtual void SendWhole(const Json& body) = 0;
  virtual void BeginEvents() = 0;
  // `name` is the event's, where the framing has names.
  virtual void SendEvent(std::string_view name, const Json& data) = 0;
  virtual void EndEvents() = 0;
  virtual void SendError(const ApiError& error) = 0;
  // Called once, from any thread, when the client goes before the end.
  virtual void OnClose(std::function<void()> callback) = 0;
};

enum class Framing : uint8_t {
  kSse,       // "data: {...}", at the end "data: [DONE]"
  kNamedSse,  // "event: name" before each, no end mark
  kBareSse,   // "data: {...}", no end mark: the last one says so itself
  kNdjson,    // a line each
};

struct HttpChannelOptions {
  ApiStyle style = ApiStyle::kOpenAi;
  Framing framing = Framing::kSse;
  std::chrono::milliseconds ping_interval{15'000};
};

std::shared_ptr<AnswerChannel> MakeHttpChannel(std::shared_ptr<ResponseWriter> writer,
                                               const HttpChannelOptions& options);

}  // namespace tenon

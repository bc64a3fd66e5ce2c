#include "frontend/server/api/answer_channel.h"

#include <fmt/format.h>

namespace tenon {
namespace {

class HttpChannel final : public AnswerChannel {
 public:
  HttpChannel(std::shared_ptr<ResponseWriter> writer, const HttpChannelOptions& options)
      : writer_(std::move(writer)), options_(options) {}

  void SendWhole(const Json& body) override { writer_->Send(JsonResponse(body)); }

  void BeginEvents() override {
    streaming_ = true;
    const bool lines = options_.framing == Framing::kNdjson;
    HttpHeaders headers;
    headers.emplace("Cache-Control", "no-cache");
    headers.emplace("X-Accel-Buffering", "no");  // nginx would hold the events back
    writer_->BeginStream(200, lines ? "application/x-ndjson" : "text/event-stream",
                         std::move(headers));
    // A line of JSON can't be empty, so NDJSON has no ping.
    if (!lines)
      writer_->KeepAlive(Ping(), options_.ping_interval);
  }

  void SendEvent(std::string_view name, const Json& data) override {
    writer_->Write(Frame(name, DumpJson(data)));
  }

  void EndEvents() override {
    if (options_.framing == Framing::kSse)
      writer_->Write("data: [DONE]\n\n");
    writer_->End();
  }

  void SendError(const ApiError& error) override {
    if (!streaming_)
      return writer_->Send(ToResponse(options_.style, error));
    writer_->Write(Frame("error", DumpJson(ErrorBody(options_.style, error))));
    writer_->End();
  }

  void OnClose(std::function<void()> callback) override { writer_->OnClose(std::move(callback)); }

 private:
  std::string Frame(std::string_view name, std::string_view data) const {
    if (options_.framing == Framing::kNdjson)
      return fmt::format("{}\n", data);
    if (options_.framing == Framing::kNamedSse)
      return fmt::format("event: {}\ndata: {}\n\n", name, data);
    return fmt::format("data: {}\n\n", data);
  }

  std::string Ping() const {
    if (options_.style == ApiStyle::kAnthropic)
      return "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    return ": ping\n\n";
  }

  std::shared_ptr<ResponseWriter> writer_;
  HttpChannelOptions options_;
  bool streaming_ = false;
};

}  // namespace

std::shared_ptr<AnswerChannel> MakeHttpChannel(std::shared_ptr<ResponseWriter> writer,
                                               const HttpChannelOptions& options) {
  return std::make_shared<HttpChannel>(std::move(writer), options);
}

}  // namespace tenon
